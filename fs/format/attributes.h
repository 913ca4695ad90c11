// fs/format/attributes.h: extended attributes: inline in the fork, or leaf blocks, with large values apart.
// Units:     bytes.
// Invariant: entries in a leaf are in order of (hash, name); names and values grow down from the block's end.
#pragma once
#include "fs/format/inode_core.h"

namespace tidewheel::disk {

inline constexpr std::uint32_t kMaxAttrNameBytes = 255;
inline constexpr std::uint32_t kMaxAttrValueBytes = 64 * 1024;

enum : std::uint8_t {
  kAttrRoot = 1,      // name space trusted.*
  kAttrSecure = 2,    // security.*
  kAttrSystem = 4,    // system.*; none of these: user.*
  kAttrRemote = 128,  // the value lies in kAttrValueMagic blocks
};

struct InlineAttrHeader {
  Le16 total_bytes;
  U8 count;
  U8 reserved;
};
struct InlineAttrEntry {  // then name and value
  U8 name_bytes;
  U8 value_bytes;
  U8 flags;
};

struct AttrLeafHeader {
  BlockHeader header;
  Le64 next;         // FsBlock of the next leaf, UINT64_MAX: none
  Le16 count;
  Le16 used_bytes;   // of names and values
  Le16 first_used;   // where they begin
  Le16 reserved;
};
struct AttrLeafEntry {
  Le32 hash;
  Le16 name_at;      // offset in the block: name, then value when it is local
  Le16 value_bytes;  // of a remote value: in its first block
  U8 name_bytes;
  U8 flags;
  Le16 reserved;
};
struct AttrRemotePlace {  // in place of a remote value
  Le64 start;             // FsBlock
  Le32 value_bytes;
};

struct AttrValueHeader {
  BlockHeader header;
  Le32 offset;  // in the value
  Le32 bytes;   // of it here
};

}  // namespace tidewheel::disk
