// fs/log/checkpoint.h: what was committed between two switches of the CIL: written, and stable, as a whole.
// Owns:      its entries, and their images until they have been laid out as records.
// Threads:   committers fill the open one through the CIL; after the switch the log's worker writes it, and
//            then the completion thread ends it: one after the other.
// Invariant: the tickets' bytes that it was given cover every byte of its records, headers and filling
//            included: writing it needs no further log space.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "fs/format/types.h"
#include "fs/item/cil_entry.h"

namespace tidewheel {

struct Checkpoint {
  std::uint64_t sequence = 0;        // from 1; checkpoints become stable in this order
  std::vector<std::unique_ptr<CilEntry>> entries;  // in the order of their commits, once sorted
  std::int64_t granted_bytes = 0;    // of log space, from tickets; falls as records are laid out
  std::int64_t memory_bytes = 0;     // of its images and entries
  Lsn start;                         // of its first record
};

}  // namespace tidewheel
