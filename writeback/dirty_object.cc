#include "writeback/dirty_object.h"

namespace tidewheel {

const char* name_of(DirtyPhase phase) {
  switch (phase) {
    case DirtyPhase::kClean: return "clean";
    case DirtyPhase::kListed: return "listed";
    case DirtyPhase::kRetry: return "retry";
    case DirtyPhase::kClaimed: return "claimed";
    case DirtyPhase::kWriting: return "writing";
    case DirtyPhase::kLazy: return "lazy";
  }
  return "not a phase";
}

}  // namespace tidewheel
