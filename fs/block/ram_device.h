// fs/block/ram_device.h: a device in memory, sparse: a 2 MiB chunk takes memory at its first write.
// Owns:      its memory: one reservation of address space, huge pages where they are to be had. It does
//            not count in a MemoryBudget: it stands for a disk.
// Threads:   submit() from any thread; the copy runs on the submitter, and so does the completion.
// Locks:     none.
// Units:     blocks of 4 KiB; memory_alignment() 1.
// Errors:    kNoMemory from make() when the address space is not to be had; kNoSpace by completion when
//            the host has no memory for a chunk. What was never written reads as zeros.
// Note:      flush, preflush and FUA have nothing to do: there is no volatile cache. Contents end with the
//            object.
#pragma once
#include <memory>
#include <string>

#include "fs/block/block_device.h"
#include "fs/block/io_counts.h"

namespace tidewheel {

class RamDevice final : public BlockDevice {
 public:
  static constexpr std::uint32_t kBlockBytes = 4096;
  static constexpr std::uint64_t kChunkBytes = 2ULL << 20;  // one huge page on x86-64 and arm64

  // size_bytes: a positive multiple of kBlockBytes.
  static Result<std::unique_ptr<RamDevice>> make(std::uint64_t size_bytes);
  ~RamDevice() override;

  std::string_view name() const override { return "ram"; }
  std::uint64_t size_bytes() const override { return size_bytes_; }
  std::uint32_t block_bytes() const override { return kBlockBytes; }
  std::uint32_t memory_alignment() const override { return 1; }
  void submit(IoRequest& request) override;
  DeviceStats stats() const override { return counts_.stats(); }
  Result<bool> holds_data() override;

  // Memory taken so far, in whole chunks.
  std::uint64_t resident_bytes() const { return chunks_taken_.load(std::memory_order_relaxed) * kChunkBytes; }

 private:
  RamDevice(std::byte* memory, std::uint64_t size_bytes, std::uint64_t chunks);
  Result<void> transfer(const IoRequest& request);
  void copy_out(std::uint64_t offset_bytes, std::byte* into, std::uint64_t len_bytes) const;
  bool take_chunks(std::uint64_t offset_bytes, std::uint64_t len_bytes);
  bool taken(std::uint64_t chunk) const;

  // ---- constant after construction ----
  std::byte* const memory_;
  const std::uint64_t size_bytes_;
  const std::uint64_t chunks_;
  // One bit per chunk with memory. Release in take_chunks() pairs with acquire in taken(): who sees the
  // bit may touch the chunk without the kernel refusing.
  const std::unique_ptr<Atomic<std::uint64_t>[]> taken_;

  Atomic<std::uint64_t> chunks_taken_{0};  // statistics
  IoCounts counts_;
};

}  // namespace tidewheel
