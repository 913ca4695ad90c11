#include "fs/block/ram_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tidewheel {

Result<std::unique_ptr<RamDevice>> RamDevice::make(std::uint64_t size_bytes) {
  if (size_bytes == 0 || size_bytes % kBlockBytes != 0) return TW_FAIL(kInvalidArgument);
  if (size_bytes > UINT64_MAX / 2) return TW_FAIL(kNoMemory);
  const std::uint64_t chunks = (size_bytes + kChunkBytes - 1) / kChunkBytes;
  // One chunk more than needed, so that chunks start at multiples of their size and can be huge pages.
  // NORESERVE: the device is sparse; memory is asked for chunk by chunk in take_chunks().
  void* memory = ::mmap(nullptr, (chunks + 1) * kChunkBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return TW_FAIL_WITH(kNoMemory, errno);
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t aligned = (start + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
  if (aligned != start) ::munmap(memory, aligned - start);
  if (const std::uintptr_t tail = start + kChunkBytes - aligned; tail != 0) {
    ::munmap(reinterpret_cast<void*>(aligned + chunks * kChunkBytes), tail);
  }
  auto* base = reinterpret_cast<std::byte*>(aligned);
  ::madvise(base, chunks * kChunkBytes, MADV_HUGEPAGE);  // a wish: small pages do as well
  return std::unique_ptr<RamDevice>(new RamDevice(base, size_bytes, chunks));
}

RamDevice::RamDevice(std::byte* memory, std::uint64_t size_bytes, std::uint64_t chunks)
    : memory_(memory),
      size_bytes_(size_bytes),
      chunks_(chunks),
      taken_(std::make_unique<Atomic<std::uint64_t>[]>((chunks + 63) / 64)) {}

RamDevice::~RamDevice() { ::munmap(memory_, chunks_ * kChunkBytes); }

void RamDevice::submit(IoRequest& request) {
  Result<void> result = check(request);
  if (result) {
    trace_issue(request);
    if (request.op != IoOp::kFlush) result = transfer(request);
    trace_complete(request, result);
  }
  counts_.count(request, result);
  request.done(request, result);
}

Result<void> RamDevice::transfer(const IoRequest& request) {
  std::uint64_t offset = request.offset_bytes;
  if (request.op == IoOp::kWrite && !take_chunks(offset, request.len_bytes())) return TW_FAIL(kNoSpace);
  for (const IoSegment& segment : request.segments) {
    if (request.op == IoOp::kWrite) {
      std::memcpy(memory_ + offset, segment.data, segment.len_bytes);
    } else {
      copy_out(offset, static_cast<std::byte*>(segment.data), segment.len_bytes);
    }
    offset += segment.len_bytes;
  }
  return {};
}

// Reading a chunk without memory would make the kernel give it some: zeros are written instead.
void RamDevice::copy_out(std::uint64_t offset_bytes, std::byte* into, std::uint64_t len_bytes) const {
  while (len_bytes != 0) {
    const std::uint64_t chunk = offset_bytes / kChunkBytes;
    const std::uint64_t n = std::min(len_bytes, (chunk + 1) * kChunkBytes - offset_bytes);
    if (taken(chunk)) {
      std::memcpy(into, memory_ + offset_bytes, n);
    } else {
      std::memset(into, 0, n);
    }
    offset_bytes += n;
    into += n;
    len_bytes -= n;
  }
}

bool RamDevice::taken(std::uint64_t chunk) const {
  return ((taken_[chunk / 64].load(std::memory_order_acquire) >> (chunk % 64)) & 1U) != 0;
}

Result<bool> RamDevice::holds_data() {
  for (std::uint64_t chunk = 0; chunk < chunks_; ++chunk) {
    if (!taken(chunk)) continue;
    const std::uint64_t start = chunk * kChunkBytes;
    if (!all_zero({memory_ + start, std::min(kChunkBytes, size_bytes_ - start)})) return true;
  }
  return false;
}

// Two writers may both ask for a chunk: asking twice is harmless, and only the first is counted.
bool RamDevice::take_chunks(std::uint64_t offset_bytes, std::uint64_t len_bytes) {
  const std::uint64_t last = (offset_bytes + len_bytes - 1) / kChunkBytes;
  for (std::uint64_t chunk = offset_bytes / kChunkBytes; chunk <= last; ++chunk) {
    if (taken(chunk)) continue;
    // Answers "no memory" here; touching would be answered by a signal.
    int rc;
    do {
      rc = ::madvise(memory_ + chunk * kChunkBytes, kChunkBytes, MADV_POPULATE_WRITE);
    } while (rc != 0 && (errno == EINTR || errno == EAGAIN));
    // EINVAL: a kernel before 5.14. Touching then has to do.
    if (rc != 0 && errno != EINVAL) return false;
    const std::uint64_t bit = 1ULL << (chunk % 64);
    if ((taken_[chunk / 64].fetch_or(bit, std::memory_order_acq_rel) & bit) == 0) {
      chunks_taken_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  return true;
}

}  // namespace tidewheel
