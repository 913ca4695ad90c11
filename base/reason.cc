#include "base/reason.h"

#include <cerrno>

namespace tidewheel {

std::string_view sentence_of(Reason reason) {
  switch (reason) {
#define TW_REASON_SENTENCE(name, number, sentence) \
  case Reason::name:                               \
    return sentence;
    TW_REASONS(TW_REASON_SENTENCE)
#undef TW_REASON_SENTENCE
  }
  return "an unknown reason";
}

int errno_of(Reason reason) {
  switch (reason) {
#define TW_REASON_ERRNO(name, number, sentence) \
  case Reason::name:                            \
    return number;
    TW_REASONS(TW_REASON_ERRNO)
#undef TW_REASON_ERRNO
  }
  return EIO;
}

Reason reason_of_errno(int error_number) {
  switch (error_number) {
    case 0: return Reason::kOk;
    case EINVAL: return Reason::kInvalidArgument;
    case EDQUOT:
    case ENOSPC: return Reason::kNoSpace;
    case ENOMEM: return Reason::kNoMemory;
    case EIO: return Reason::kIo;
    case ENOTDIR:
    case ENOENT: return Reason::kNotFound;
    case EEXIST: return Reason::kExists;
    case EPERM:
    case EACCES: return Reason::kAccess;
    case EBUSY: return Reason::kBusy;
    case ENOTEMPTY: return Reason::kNotEmpty;
    case EROFS: return Reason::kReadOnly;
    case EFBIG: return Reason::kFileTooLarge;
    case EINTR: return Reason::kInterrupted;
    case EOPNOTSUPP: return Reason::kUnsupported;
    default: return Reason::kSystem;
  }
}

}  // namespace tidewheel
