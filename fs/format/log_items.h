// fs/format/log_items.h: what a checkpoint holds: the first region of each item names its type and how many
// regions follow.
// Units:     addresses in device blocks; dirty chunks of 128 bytes.
// Invariant: every item begins with LogItemHeader; `regions` counts that first region too.
#pragma once
#include "fs/format/inode_core.h"

namespace tidewheel::disk {

enum class LogItemType : std::uint16_t {
  kBuffer = 0x4201,
  kInode = 0x4202,
  kInodeChunk = 0x4203,       // a chunk of free inodes is made: nothing but its place is logged
  kFreeExtentIntent = 0x4210, kFreeExtentDone = 0x4211,
  kMapIntent = 0x4212,        kMapDone = 0x4213,
  kMock = 0x42F0,             // bytes of the mock items' own
  kMockIntent = 0x42F1,       kMockDone = 0x42F2,
};

struct LogItemHeader {
  Le16 type;
  Le16 regions;
};

// ---- buffers: the format, then each run of dirty chunks as a region ----

inline constexpr std::uint32_t kDirtyChunkLog = 7;
inline constexpr std::uint32_t kDirtyChunkBytes = 1U << kDirtyChunkLog;
inline constexpr std::uint32_t kMaxBufferBytes = 64 * 1024;
inline constexpr std::uint32_t kMaxDirtyWords = kMaxBufferBytes / kDirtyChunkBytes / 32;

enum : std::uint16_t {
  kBufferCancel = 1,   // freed: earlier images are not replayed; no regions follow
  kBufferInode = 2,    // an inode cluster: LSNs are compared and set per inode
  kBufferNew = 4,      // made in this checkpoint: replayed without reading what is on the device
};

struct BufferItemFormat {
  LogItemHeader item;
  Le16 flags;
  Le16 dirty_words;    // of 32 chunks each, behind this struct: bit i of word w: chunk 32 w + i
  Le32 length_blocks;
  Le32 block_type;     // BlockType, for the verifier at replay
  Le64 address;        // DeviceAddress
};

// ---- inodes: the format, the body, then a region for each fork that changed ----

enum : std::uint16_t {
  kInodeItemCore = 1,
  kInodeItemData = 2,
  kInodeItemAttr = 4,
};

struct InodeItemFormat {
  LogItemHeader item;
  Le16 fields;
  Le16 data_bytes;
  Le16 attr_bytes;
  Le16 offset_bytes;   // of the inode in its cluster
  Le32 cluster_blocks;
  Le64 inode;
  Le64 cluster;        // DeviceAddress
};

struct InodeChunkFormat {
  LogItemHeader item;
  Le32 ag_number;
  Le32 ag_block;
  Le32 length_blocks;
  Le32 inode_count;
  Le32 generation;     // that every inode of it begins with
};

// ---- intents: one region, the header and then `count` things; done items name their intent ----

struct IntentFormat {
  LogItemHeader item;
  Le32 count;
  Le64 id;             // unique among the intents that are open
};
struct DoneFormat {
  LogItemHeader item;
  Le32 count;          // of the things that are done: all of them
  Le64 intent_id;
};
struct IntentExtent {
  Le64 start;          // FsBlock
  Le32 count;
  Le32 flags;
};
struct IntentMap {
  Le64 inode;
  Le64 file_block;
  Le64 start;          // FsBlock
  Le32 count;
  Le32 flags;
};
inline constexpr std::uint32_t kMaxIntentThings = 16;

// ---- mock items: an object of 1 to kMaxMockBytes bytes with a home of its own (MockBlock) ----

struct MockItemFormat {
  LogItemHeader item;
  Le32 bytes;          // of the region that follows
  Le64 object;
  Le64 version;        // rises with each change
  Le64 address;        // of its home
};

struct MockBlock {
  BlockHeader header;  // owner: the object
  Le64 version;
  Le32 bytes;
  Le32 reserved;
};
inline constexpr std::uint32_t kMaxMockBytes = kFsBlockBytes - sizeof(MockBlock);

}  // namespace tidewheel::disk
