// fs/format/log_format.h: the log on disk: records, operations, checkpoints.
//
// The log is a ring of sectors (512 bytes). A record is a header sector, more header sectors when its payload
// has more sectors than one header has words for, and the payload, filled up to log_write_unit_bytes. The
// payload is a sequence of operations: LogOp, then its bytes. The operations of one checkpoint, from the one
// with kOpStart to the one with kOpCommit, may lie in several records, between those of other checkpoints.
//
// Units:     sectors of 512 bytes; Lsn is cycle and sector.
// Errors:    none here: recovery trusts no length before the CRC over it was right.
// Invariant: every sector of the log begins with the cycle it was written in (0: never). In a payload that
//            word's place belongs to an operation: the word itself is kept in the headers' `words`. Sectors
//            of a record that has gone round the end of the log carry cycle + 1.
#pragma once
#include "fs/format/block_header.h"

namespace tidewheel::disk {

inline constexpr std::uint32_t kLogRecordMagic = magic_of("TdLR");
inline constexpr std::uint32_t kLogMoreMagic = magic_of("TdLM");
inline constexpr std::uint32_t kLogCheckpointMagic = magic_of("TdLC");
inline constexpr std::uint32_t kLogUnmountMagic = magic_of("TdLU");
inline constexpr std::uint32_t kLogVersion = 1;
inline constexpr std::uint32_t kLogWriteUnitBytes = 4096;
inline constexpr std::uint32_t kMinLogBufferBytes = 16 * 1024;
inline constexpr std::uint32_t kDefaultLogBufferBytes = 32 * 1024;
inline constexpr std::uint32_t kMaxLogBufferBytes = 256 * 1024;
inline constexpr std::uint32_t kMaxLogBuffers = 8;

inline constexpr std::uint32_t kWordsInHeader = 110;
inline constexpr std::uint32_t kWordsInMore = 126;

struct LogRecordHeader {
  Le32 cycle;
  Le32 magic;
  Le32 version;
  Le32 payload_bytes;    // of operations; what follows up to the write unit is zeros
  Le64 lsn;              // of this header
  Le64 tail_lsn;         // recovery starts there
  Le32 crc;              // of all sectors of the record as they lie on disk, this field as zeros
  Le32 operation_count;
  Le32 previous_sector;  // of the record before; UINT32_MAX: none
  Le32 record_sectors;   // header, more headers, payload, filling
  DiskUuid uuid;         // of the file system: what an earlier one left here is told apart
  Le32 buffer_bytes;     // of the log buffers it was written from: at least record_sectors * 512
  Le32 reserved;
  Le32 words[kWordsInHeader];  // first words of payload sectors 0 to 109
};

struct LogMoreHeader {
  Le32 cycle;
  Le32 magic;
  Le32 words[kWordsInMore];    // of the payload sectors that follow
};

// Header sectors that a record of so many sectors in all begins with.
constexpr std::uint32_t log_header_sectors(std::uint32_t record_sectors) {
  std::uint32_t headers = 1;
  while (kWordsInHeader + (headers - 1) * kWordsInMore + headers < record_sectors) ++headers;
  return headers;
}
inline constexpr std::uint32_t kMaxLogHeaderSectors =
    log_header_sectors(kMaxLogBufferBytes / kLogSectorBytes);

enum : std::uint8_t {
  kOpStart = 1,         // first of a checkpoint: its bytes are a LogCheckpoint
  kOpCommit = 2,        // last of a checkpoint: its bytes are a LogCommit
  kOpContinues = 4,     // the region goes on in the next record's first operation of this checkpoint
  kOpContinued = 8,     // the bytes go on a region that the record before began
  kOpUnmount = 16,      // its bytes are a LogUnmount; nothing follows
};
inline constexpr std::uint8_t kOpKnownFlags =
    kOpStart | kOpCommit | kOpContinues | kOpContinued | kOpUnmount;

// Before each region.
struct LogOp {
  Le32 checkpoint;  // low 32 bits of its sequence
  Le32 bytes;       // that follow in this record
  U8 flags;
  U8 reserved[3];
};

struct LogCheckpoint {
  Le32 magic;
  Le32 item_count;
  Le64 sequence;    // from 1; the order in which checkpoints commit
};
struct LogCommit {
  Le64 sequence;
  Le64 start_lsn;   // of the record that holds the checkpoint's kOpStart
};
struct LogUnmount {
  Le32 magic;
  Le32 reserved;
  Le64 next_sequence;
};

}  // namespace tidewheel::disk
