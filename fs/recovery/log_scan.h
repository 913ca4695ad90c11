// fs/recovery/log_scan.h: where the log begins and ends.
//
//   1. any valid record near the head: cycle words are bisected over the write units (they are c up to the
//      head and c - 1 behind it, but for what was in flight), and the newest valid record is looked for in
//      the window before that place, which is as long as all that can be in flight. Where the words mislead
//      (an earlier file system's, a damaged one), the whole log is looked through.
//   2. from it, record by record, to the last one that is valid: it knows the tail.
//   3. from the tail, record by record, to the first that is not: the head. Bisection is only a short cut to
//      a beginning: what counts is that chain of records, each with the LSN that follows from the one before
//      and naming it, all of them with their CRC.
//   4. behind the head: what was in flight beyond a hole. Records written from here on could be continued by
//      one that lies there: such are named, to be wiped before anything is written.
//
// Threads:   a function of the log's content.
// Units:     LSNs and sectors.
// Errors:    kCorrupt: no record at all (mkfs leaves one), or the chain ends before a whole record that was
//            only written once everything before it was stable: a crash does not do that. kUnsupported: the
//            last cycle. And those of the device.
#pragma once
#include <cstdint>
#include <vector>

#include "fs/recovery/log_reader.h"

namespace tidewheel {

// All that is in flight at once, and the record before it.
inline constexpr std::uint64_t kLogWindowBytes =
    std::uint64_t{disk::kMaxLogBuffers + 1} * disk::kMaxLogBufferBytes;

struct LogScan {
  Lsn tail;                                   // recovery begins there
  Lsn head;                                   // behind the last record
  std::uint32_t previous_sector = UINT32_MAX; // of the last record
  std::uint32_t records = 0;                  // from tail to head
  std::uint64_t unmount_sequence = 0;         // not 0: the last record says that nothing is to be replayed
  std::vector<std::uint32_t> stale;           // sectors of whole records behind the head
  bool looked_through = false;                // bisection found nothing
};

// window_bytes: for tests.
Result<LogScan> scan_log(LogReader& reader, std::uint64_t window_bytes = kLogWindowBytes);

}  // namespace tidewheel
