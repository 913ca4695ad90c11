#include "fs/crash/crash_state.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/rng.h"

namespace tidewheel {

bool Tear::keeps(std::uint64_t sector) const {
  switch (form) {
    case Form::kPrefix: return sector < value / kSectorBytes;
    case Form::kMask: return sector < 64 && ((value >> sector) & 1U) != 0;
    case Form::kDrawn: {
      // Any sector at once, without drawing those before it.
      Rng rng(value * 0x9E3779B97F4A7C15ULL + sector / 64);
      return ((rng.next() >> (sector % 64)) & 1U) != 0;
    }
  }
  return false;
}

void StateSpec::lose(std::uint32_t candidate) {
  if (lost.size() <= candidate / 64) lost.resize(candidate / 64 + 1);
  lost[candidate / 64] |= 1ULL << (candidate % 64);
}

void StateSpec::keep(std::uint32_t candidate) {
  if (candidate / 64 < lost.size()) lost[candidate / 64] &= ~(1ULL << (candidate % 64));
}

const Tear* StateSpec::tear_of(std::uint32_t candidate) const {
  for (const Tear& tear : torn) {
    if (tear.candidate == candidate) return &tear;
  }
  return nullptr;
}

bool is_possible(const Cut& cut, const StateSpec& spec) {
  for (std::uint32_t i = 0; i < cut.candidates.size(); ++i) {
    if (cut.candidates[i].needs.empty() || spec.is_lost(i)) continue;
    for (const std::uint32_t need : cut.candidates[i].needs) {
      if (spec.is_lost(need) || spec.tear_of(need) != nullptr) return false;
    }
  }
  return true;
}

std::uint64_t apply(const BaseImage& base, const Cut& cut, const StateSpec& spec, BlockMap& over,
                    BlockArena& arena) {
  std::uint64_t hash = cut.hash;
  for (std::uint32_t c = 0; c < cut.candidates.size(); ++c) {
    if (spec.is_lost(c)) continue;
    const Candidate& write = cut.candidates[c];
    const Tear* tear = spec.torn.empty() ? nullptr : spec.tear_of(c);
    for (std::uint32_t i = 0; i < write.blocks; ++i) {
      std::uint8_t sectors = write.live_sectors(i);
      if (tear != nullptr) {
        for (std::uint64_t s = 0; s < 8; ++s) {
          if (!tear->keeps(i * 8ULL + s)) sectors &= static_cast<std::uint8_t>(~(1U << s));
        }
      }
      if (sectors == 0) continue;
      const std::uint64_t block = write.first_block + i;
      const std::byte* content = write.content + i * kCrashBlockBytes;
      const BlockMap::Entry* entry = over.find(block);
      const BlockRef old = entry != nullptr ? entry->ref : look_up(base, cut.durable, block);
      if (sectors == 0xFF) {
        hash += write.hashes[i] - old.hash;
        over.set(block, {content, write.hashes[i]});
        continue;
      }
      std::byte* mixed = arena.take();
      if (old.bytes != nullptr) {
        std::memcpy(mixed, old.bytes, kCrashBlockBytes);
      } else {
        std::memset(mixed, 0, kCrashBlockBytes);
      }
      for (std::uint64_t s = 0; s < 8; ++s) {
        if (((sectors >> s) & 1U) != 0) {
          std::memcpy(mixed + s * kSectorBytes, content + s * kSectorBytes, kSectorBytes);
        }
      }
      const std::uint64_t mixed_hash = hash_of_block(block, mixed);
      hash += mixed_hash - old.hash;
      over.set(block, {mixed, mixed_hash}, mixed);
    }
  }
  return hash;
}

std::string misfit(const Cut& cut, const StateSpec& spec) {
  const std::size_t n = cut.candidates.size();
  for (std::size_t word = 0; word < spec.lost.size(); ++word) {
    if (spec.lost[word] == 0) continue;
    const std::size_t top = word * 64 + 63 - static_cast<std::size_t>(__builtin_clzll(spec.lost[word]));
    if (top >= n) {
      return "lost= names write " + std::to_string(top) + ", and at this cut " + std::to_string(n) +
             " can be lost";
    }
  }
  for (const Tear& tear : spec.torn) {
    if (tear.candidate >= n) {
      return "torn= names write " + std::to_string(tear.candidate) + ", and at this cut " +
             std::to_string(n) + " can be torn";
    }
    if (spec.is_lost(tear.candidate)) {
      return "write " + std::to_string(tear.candidate) + " is both lost and torn";
    }
    const std::uint64_t sectors = cut.candidates[tear.candidate].sectors();
    if (tear.form == Tear::Form::kPrefix && tear.value >= sectors * kSectorBytes) {
      return "torn=: write " + std::to_string(tear.candidate) + " has only " +
             std::to_string(sectors * kSectorBytes) + " bytes";
    }
  }
  if (!is_possible(cut, spec)) return "a write is there and what its preflush covers is not";
  return {};
}

std::uint32_t hash_of_trace(const IoTrace& trace) {
  std::uint64_t hash = 0;
  for (const IoTrace::Event& event : trace.events) {
    hash = mix_hash(hash, static_cast<std::uint64_t>(event.kind) << 32 | event.index);
  }
  for (const IoTrace::Op& op : trace.ops) {
    const auto kind = static_cast<std::uint64_t>(op.op) << 3 | static_cast<std::uint64_t>(op.preflush) << 2 |
                      static_cast<std::uint64_t>(op.fua) << 1 | static_cast<std::uint64_t>(op.ok);
    hash = mix_hash(hash, kind);
    hash = mix_hash(hash, op.offset_bytes);
    if (op.content != nullptr) hash = mix_hash(hash, hash_of_bytes({op.content, op.len_bytes}, 0));
  }
  return static_cast<std::uint32_t>(hash ^ hash >> 32);
}

namespace {

std::string hex(std::uint64_t value) {
  char text[17];
  const auto end = std::to_chars(text, text + sizeof text, value, 16).ptr;
  return std::string(text, end);
}

std::string lost_text(const StateSpec& spec) {
  std::size_t words = spec.lost.size();
  while (words != 0 && spec.lost[words - 1] == 0) --words;
  if (words == 0) return {};
  std::string text = ":lost=0x" + hex(spec.lost[words - 1]);
  for (std::size_t i = words - 1; i-- > 0;) {
    const std::string word = hex(spec.lost[i]);
    text += std::string(16 - word.size(), '0') + word;
  }
  return text;
}

std::string torn_text(const StateSpec& spec) {
  std::string text;
  for (const Tear& tear : spec.torn) {
    text += text.empty() ? ":torn=" : "+";
    text += std::to_string(tear.candidate) + "@";
    switch (tear.form) {
      case Tear::Form::kPrefix: text += std::to_string(tear.value); break;
      case Tear::Form::kMask: text += "0x" + hex(tear.value); break;
      case Tear::Form::kDrawn: text += "r" + std::to_string(tear.value); break;
    }
  }
  return text;
}

// The whole text, or nothing.
std::optional<std::uint64_t> number(std::string_view text, int base) {
  std::uint64_t value = 0;
  if (text.empty()) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  return "'" + std::string(text.substr(0, kLongest)) + (text.size() > kLongest ? "…'" : "'");
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

std::string parse_lost(std::string_view value, StateSpec& spec) {
  const std::string wrong = "lost=" + quoted(value) + ": hexadecimal digits after 0x are expected";
  if (!take_prefix(value, "0x") || value.empty()) return wrong;
  constexpr std::size_t kMost = 1 << 16;
  if (value.size() > kMost) return "lost=: more than " + std::to_string(kMost) + " digits";
  while (!value.empty()) {
    const std::size_t n = std::min<std::size_t>(value.size(), 16);
    const auto word = number(value.substr(value.size() - n), 16);
    if (!word) return wrong;
    spec.lost.push_back(*word);
    value.remove_suffix(n);
  }
  return {};
}

std::string parse_torn(std::string_view value, StateSpec& spec) {
  if (value.empty()) return "torn=: INDEX@BYTES, INDEX@0xSECTORS or INDEX@rNUMBER is expected";
  while (!value.empty()) {
    const std::string_view part = take_until(value, '+');
    std::string_view keep = part;
    const auto index = number(take_until(keep, '@'), 10);
    Tear tear;
    if (take_prefix(keep, "0x")) {
      tear.form = Tear::Form::kMask;
    } else if (take_prefix(keep, "r")) {
      tear.form = Tear::Form::kDrawn;
    }
    const auto amount = number(keep, tear.form == Tear::Form::kMask ? 16 : 10);
    if (!index || *index > UINT32_MAX || !amount) {
      return "torn=" + quoted(part) + ": INDEX@BYTES, INDEX@0xSECTORS or INDEX@rNUMBER is expected";
    }
    if (tear.form == Tear::Form::kPrefix && *amount % kSectorBytes != 0) {
      return "torn=" + quoted(part) + ": " + std::to_string(*amount) + " is no multiple of 512";
    }
    tear.candidate = static_cast<std::uint32_t>(*index);
    tear.value = *amount;
    if (!spec.torn.empty() && spec.torn.back().candidate >= tear.candidate) {
      return "torn=" + quoted(part) + ": writes are named once each, in rising order";
    }
    spec.torn.push_back(tear);
  }
  return {};
}

std::string parse_level(std::string_view text, StateLevel& level) {
  bool has_cut = false, has_lost = false, has_torn = false;
  while (!text.empty()) {
    const std::string_view field = take_until(text, ':');
    std::string_view value = field;
    if (take_prefix(value, "cut=") && !has_cut) {
      const auto cut = number(value, 10);
      if (!cut || *cut >= UINT32_MAX) return "cut=" + quoted(value) + ": a whole number is expected";
      level.cut = static_cast<std::uint32_t>(*cut);
      has_cut = true;
    } else if (take_prefix(value, "lost=") && !has_lost) {
      has_lost = true;
      if (const std::string wrong = parse_lost(value, level.spec); !wrong.empty()) return wrong;
    } else if (take_prefix(value, "torn=") && !has_torn) {
      has_torn = true;
      if (const std::string wrong = parse_torn(value, level.spec); !wrong.empty()) return wrong;
    } else {
      return quoted(field) + ": cut=, lost= or torn=, each once, is expected";
    }
  }
  return has_cut ? std::string() : std::string("cut= is missing");
}

}  // namespace

std::string to_string(const ReplayName& name) {
  const std::string trace = hex(name.trace);
  std::string text = name.workload + ":seed=" + std::to_string(name.seed) + ":trace=" +
                     std::string(8 - trace.size(), '0') + trace;
  char separator = ':';
  for (const StateLevel& level : name.levels) {
    text += separator + ("cut=" + std::to_string(level.cut)) + lost_text(level.spec) + torn_text(level.spec);
    separator = '/';
  }
  return text;
}

std::variant<ReplayName, std::string> parse_replay(std::string_view text) {
  ReplayName name;
  name.workload = take_until(text, ':');
  if (name.workload.empty()) return std::string("the name of a workload is missing");
  const auto field = [&text](std::string_view key) -> std::optional<std::string_view> {
    std::string_view value = take_until(text, ':');
    return take_prefix(value, key) ? std::optional(value) : std::nullopt;
  };
  const auto seed = field("seed=");
  const auto seed_value = seed ? number(*seed, 10) : std::nullopt;
  if (!seed_value) return "seed=NUMBER is expected after " + quoted(name.workload);
  name.seed = *seed_value;
  const auto trace = field("trace=");
  const auto trace_value = trace && trace->size() == 8 ? number(*trace, 16) : std::nullopt;
  if (!trace_value) return std::string("trace= and eight hexadecimal digits are expected after seed=");
  name.trace = static_cast<std::uint32_t>(*trace_value);
  if (text.ends_with('/')) return std::string("after / the cut of a recovery is expected");
  do {
    if (name.levels.size() == 16) return std::string("more than 16 crashes inside one another");
    StateLevel& level = name.levels.emplace_back();
    if (const std::string wrong = parse_level(take_until(text, '/'), level); !wrong.empty()) return wrong;
  } while (!text.empty());
  return name;
}

}  // namespace tidewheel
