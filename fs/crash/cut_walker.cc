#include "fs/crash/cut_walker.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tidewheel {

namespace {

constexpr std::uint64_t kSectorsPerBlock = kCrashBlockBytes / kSectorBytes;

}  // namespace

CutWalker::CutWalker(const IoTrace& trace, const BaseImage& base)
    : CutWalker(trace, base, BlockMap(), base.hash) {}

CutWalker::CutWalker(const IoTrace& trace, const BaseImage& base, BlockMap durable, std::uint64_t hash)
    : trace_(trace), base_(base), hashes_(trace.ops.size()) {
  cut_.durable = std::move(durable);
  cut_.hash = hash;
}

bool CutWalker::has_uncovered_before(std::uint32_t event) const {
  return std::any_of(completed_.begin(), completed_.end(), [&](const Candidate& c) {
    const IoTrace::Op& op = trace_.ops[c.op];
    return op.ok && op.completed < event;
  });
}

bool CutWalker::changes_something(const IoTrace::Event& event) const {
  if (event.kind == IoTrace::EventKind::kNote) return false;
  const IoTrace::Op& op = trace_.ops[event.index];
  if (event.kind == IoTrace::EventKind::kSubmitted) return op.op == IoOp::kWrite;
  if (!op.ok) return false;
  if (op.op == IoOp::kWrite && op.fua) return true;
  return (op.op == IoOp::kFlush || op.preflush) && has_uncovered_before(op.submitted);
}

const Cut* CutWalker::next() {
  if (ended_) return nullptr;
  cut_.new_write = false;
  bool moved = !started_;
  started_ = true;
  for (; at_ < trace_.events.size(); ++at_) {
    const IoTrace::Event& event = trace_.events[at_];
    if (changes_something(event)) {
      if (moved) break;
      cut_.new_write = event.kind == IoTrace::EventKind::kSubmitted;
      moved = true;
    }
    switch (event.kind) {
      case IoTrace::EventKind::kNote: cut_.notes = event.index + 1; break;
      case IoTrace::EventKind::kSubmitted: submit(event.index); break;
      case IoTrace::EventKind::kCompleted: complete(event.index); break;
    }
  }
  ended_ = at_ == trace_.events.size();
  cut_.event = at_;
  collect_candidates();
  return &cut_;
}

void CutWalker::submit(std::uint32_t index) {
  const IoTrace::Op& op = trace_.ops[index];
  if (op.op != IoOp::kWrite) return;
  Candidate write;
  write.op = index;
  write.first_block = op.offset_bytes / kCrashBlockBytes;
  write.blocks = static_cast<std::uint32_t>(op.len_bytes / kCrashBlockBytes);
  write.content = op.content;
  std::vector<std::uint64_t>& hashes = hashes_[index];
  for (std::uint32_t block = 0; block < write.blocks; ++block) {
    hashes.push_back(hash_of_block(write.first_block + block, op.content + block * kCrashBlockBytes));
  }
  write.hashes = hashes.data();
  in_flight_.push_back(std::move(write));
}

void CutWalker::complete(std::uint32_t index) {
  const IoTrace::Op& op = trace_.ops[index];
  if (op.ok && (op.op == IoOp::kFlush || op.preflush)) cover(op.submitted);
  if (op.op != IoOp::kWrite) return;
  const auto found = std::find_if(in_flight_.begin(), in_flight_.end(),
                                  [&](const Candidate& c) { return c.op == index; });
  TW_ASSERT(found != in_flight_.end(), "a write completes that was not submitted");
  Candidate write = std::move(*found);
  in_flight_.erase(found);
  if (op.ok && op.fua) {
    make_durable(write);
  } else {
    completed_.push_back(std::move(write));
  }
}

void CutWalker::cover(std::uint32_t event) {
  const auto covered = [&](const Candidate& c) {
    const IoTrace::Op& op = trace_.ops[c.op];
    return op.ok && op.completed < event;
  };
  // In the order of completion, and each looks at those that stay: taken out first.
  std::vector<Candidate> durable;
  std::vector<Candidate> rest;
  for (Candidate& c : completed_) (covered(c) ? durable : rest).push_back(std::move(c));
  completed_ = std::move(rest);
  for (const Candidate& c : durable) make_durable(c);
}

void CutWalker::make_durable(const Candidate& write) {
  for (std::uint32_t i = 0; i < write.blocks; ++i) {
    const std::uint8_t live = write.live_sectors(i);
    if (live == 0) continue;
    const std::uint64_t block = write.first_block + i;
    const std::byte* content = write.content + i * kCrashBlockBytes;
    const BlockRef old = look_up(base_, cut_.durable, block);
    BlockRef now{content, write.hashes[i]};
    if (live != 0xFF) {
      std::byte* mixed = arena_.take();
      if (old.bytes != nullptr) {
        std::memcpy(mixed, old.bytes, kCrashBlockBytes);
      } else {
        std::memset(mixed, 0, kCrashBlockBytes);
      }
      for (std::uint64_t sector = 0; sector < kSectorsPerBlock; ++sector) {
        if (((live >> sector) & 1U) == 0) continue;
        std::memcpy(mixed + sector * kSectorBytes, content + sector * kSectorBytes, kSectorBytes);
      }
      now = {mixed, hash_of_block(block, mixed)};
    }
    cut_.hash += now.hash - old.hash;
    cut_.durable.set(block, now);
  }
  const std::uint32_t submitted = trace_.ops[write.op].submitted;
  const std::uint64_t end = write.first_block + write.blocks;
  for (Candidate& older : completed_) {
    if (trace_.ops[older.op].completed >= submitted) continue;
    for (std::uint32_t i = 0; i < older.blocks; ++i) {
      const std::uint64_t block = older.first_block + i;
      if (block < write.first_block || block >= end) continue;
      const std::uint8_t over = write.live_sectors(static_cast<std::uint32_t>(block - write.first_block));
      if (older.live.empty()) older.live.assign(older.blocks, 0xFF);
      older.live[i] &= static_cast<std::uint8_t>(~over);
    }
  }
  std::erase_if(completed_, [](const Candidate& c) {
    return !c.live.empty() &&
           std::all_of(c.live.begin(), c.live.end(), [](std::uint8_t mask) { return mask == 0; });
  });
}

void CutWalker::collect_candidates() {
  cut_.candidates = completed_;
  for (const Candidate& write : in_flight_) {
    Candidate& candidate = cut_.candidates.emplace_back(write);
    const IoTrace::Op& op = trace_.ops[write.op];
    if (!op.preflush) continue;
    for (std::uint32_t i = 0; i < completed_.size(); ++i) {
      const IoTrace::Op& earlier = trace_.ops[completed_[i].op];
      if (earlier.ok && earlier.completed < op.submitted) candidate.needs.push_back(i);
    }
  }
}

}  // namespace tidewheel
