#include "fs/tools/dump_text.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <ctime>

#include "fs/format/superblock.h"

namespace tidewheel::tools {

void DumpText::line(const char* format, ...) {
  std::va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int bytes = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  const std::size_t at = dump_.text.size();
  dump_.text.resize(at + static_cast<std::size_t>(std::max(bytes, 0)) + 1);
  std::vsnprintf(dump_.text.data() + at, dump_.text.size() - at, format, again);
  va_end(again);
  dump_.text.pop_back();  // the terminating zero
  dump_.text += '\n';
}

void DumpText::block_or_none(const char* name, std::uint32_t value) {
  if (value == UINT32_MAX) {
    field(name, std::string("none"));
  } else {
    field(name, std::uint64_t{value});
  }
}

void DumpText::verdict(const disk::Verdict& verdict) {
  if (verdict.good()) {
    field("check", std::string("good"));
    return;
  }
  count_damage();
  line("  %-28s DAMAGED: %s: %s (byte %u)", "check", disk::name_of(verdict.fault), verdict.what, verdict.at);
}

void DumpText::header(const disk::BlockHeader& header) {
  line("  %-28s 0x%08x", "crc", header.crc.get());
  field("lsn", lsn_text({header.lsn}));
  field("block", header.block);
  field("owner", header.owner);
  field("uuid", disk::from_disk(header.uuid).text());
}

std::span<std::byte> DumpText::read(DeviceAddress address, std::uint32_t blocks) {
  return read_bytes(address.bytes(), std::uint64_t{blocks} * kFsBlockBytes);
}

std::span<std::byte> DumpText::read_bytes(std::uint64_t offset_bytes, std::uint64_t len_bytes) {
  if (len_bytes > memory_bytes_) {
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kFsBlockBytes, len_bytes)));
    memory_bytes_ = memory_ == nullptr ? 0 : len_bytes;
    if (memory_ == nullptr) {
      fail("no memory");
      return {};
    }
  }
  const std::span<std::byte> bytes(memory_.get(), len_bytes);
  if (const auto done = device_.read(offset_bytes, bytes, IoCause::kMetadata); !done) {
    fail("block " + std::to_string(offset_bytes / kFsBlockBytes) +
         " could not be read: " + std::string(done.error().sentence()));
    return {};
  }
  return bytes;
}

bool DumpText::open() {
  const auto block = read({0}, 1);
  if (block.empty()) return false;
  const auto& super = disk::view<disk::Superblock>(block);
  if (super.header.magic != disk::kSuperMagic) {
    fail("it is no tidefs");
    return false;
  }
  const auto geometry = disk::Geometry::make(super);
  if (!geometry) {
    fail("its first superblock says what cannot be ('dump IMAGE super' prints it)");
    return false;
  }
  geometry_ = *geometry;
  if (const auto good = disk::read_superblock(block, device_.size_bytes() / kFsBlockBytes, false); !good) {
    line("the first superblock is DAMAGED ('dump IMAGE super' says where): the rest is read by what it says");
    count_damage();
  }
  return true;
}

std::string lsn_text(Lsn lsn) {
  if (lsn.none()) return "none";
  return std::to_string(lsn.cycle()) + ":" + std::to_string(lsn.block());
}

std::string time_text(std::uint64_t ns_since_1970) {
  const auto ns = static_cast<std::int64_t>(ns_since_1970);
  std::int64_t seconds = ns / 1'000'000'000, rest = ns % 1'000'000'000;
  if (rest < 0) {
    rest += 1'000'000'000;
    --seconds;
  }
  const std::time_t time = seconds;
  std::tm parts{};
  char text[64];
  if (gmtime_r(&time, &parts) == nullptr) return std::to_string(ns) + " ns";
  const std::size_t n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + n, sizeof text - n, ".%09lldZ", static_cast<long long>(rest));
  return text;
}

std::string quoted(const void* text, std::size_t bytes) {
  const auto* c = static_cast<const unsigned char*>(text);
  std::string out = "\"";
  for (std::size_t i = 0; i < bytes; ++i) {
    if (c[i] < 0x20 || c[i] == '"' || c[i] == '\\' || c[i] == 0x7F) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", c[i]);
      out += escaped;
    } else {
      out += static_cast<char>(c[i]);
    }
  }
  return out + '"';
}

}  // namespace tidewheel::tools
