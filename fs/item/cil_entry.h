// fs/item/cil_entry.h: one item's place in one checkpoint.
// Owns:      the image that will be written. The checkpoint owns the entry.
// Threads:   committers, with the item's object locked and the open checkpoint shared; after the switch the
//            checkpoint's writer and the log's completion thread, one after the other.
#pragma once
#include <cstdint>

#include <boost/intrusive/list_hook.hpp>

#include "fs/item/log_image.h"

namespace tidewheel {

class LogItem;

struct CilEntry {
  boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>> hook;
  LogItem* item = nullptr;
  std::uint64_t order = 0;  // rises with each commit, and from item to item: the order of writing
  LogImage::Owned image;
  std::uint8_t shard = 0;   // of the CIL, to which its memory returns
  bool whiteout = false;    // an intent that was done in the same checkpoint: neither is written
};

}  // namespace tidewheel
