// fs/tools/dump_text.h: lines of a dump, and blocks read for it.
// Threads:   one owner.
#pragma once
#include <cstdlib>
#include <memory>
#include <span>

#include "fs/format/verify.h"
#include "fs/tools/dump.h"

namespace tidewheel::tools {

class DumpText {
 public:
  explicit DumpText(BlockDevice& device) : device_(device) {}

  // Reads block 0 and takes its geometry, also when the CRC is wrong. False: `error` says why.
  bool open();
  const disk::Geometry& geometry() const { return geometry_; }

  void line(const char* format, ...) __attribute__((format(printf, 2, 3)));
  void title(const std::string& text) { dump_.text += text + "\n"; }
  // "name  value", aligned.
  void field(const char* name, std::uint64_t value) {
    line("  %-28s %llu", name, static_cast<unsigned long long>(value));
  }
  void field(const char* name, const std::string& value) { line("  %-28s %s", name, value.c_str()); }
  void block_or_none(const char* name, std::uint32_t value);
  void verdict(const disk::Verdict& verdict);
  void header(const disk::BlockHeader& header);
  // Of the whole device; empty, with an error, when it cannot be read. Good until the next read.
  std::span<std::byte> read(DeviceAddress address, std::uint32_t blocks);
  std::span<std::byte> read_bytes(std::uint64_t offset_bytes, std::uint64_t len_bytes);
  void fail(const std::string& why) {
    if (dump_.error.empty()) dump_.error = why;
  }
  BlockDevice& device() { return device_; }
  Dump take() { return std::move(dump_); }
  void count_damage() { ++dump_.damaged; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  BlockDevice& device_;
  disk::Geometry geometry_;
  Dump dump_;
  std::unique_ptr<std::byte, Free> memory_;
  std::uint64_t memory_bytes_ = 0;
};

std::string lsn_text(Lsn lsn);
std::string time_text(std::uint64_t ns_since_1970);  // UTC
std::string quoted(const void* text, std::size_t bytes);

}  // namespace tidewheel::tools
