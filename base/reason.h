// base/reason.h: the one table of reasons for which an operation can fail.
// Each row: name, errno at the boundary where one is needed, the sentence people read.
#pragma once
#include <cstdint>
#include <string_view>

namespace tidewheel {

#define TW_REASONS(X)                                                              \
  X(kOk, 0, "no error")                                                            \
  X(kInvalidArgument, EINVAL, "the argument is not acceptable")                    \
  X(kNoSpace, ENOSPC, "no space left on the device")                               \
  X(kNoMemory, ENOMEM, "the memory budget does not allow it")                      \
  X(kIo, EIO, "the device reported an error")                                      \
  X(kShortIo, EIO, "the device moved fewer bytes than asked")                      \
  X(kOutOfRange, EINVAL, "the range lies outside the device")                      \
  X(kMisaligned, EINVAL, "offset or length is not a multiple of the block size")   \
  X(kNotFound, ENOENT, "it does not exist")                                        \
  X(kExists, EEXIST, "it exists already")                                          \
  X(kAccess, EACCES, "permission denied")                                          \
  X(kBusy, EBUSY, "it is in use")                                                  \
  X(kCorrupt, EUCLEAN, "its content is not what was written")                      \
  X(kNotEmpty, ENOTEMPTY, "it is not empty and not ours")                          \
  X(kNotAFile, EINVAL, "it is neither a regular file nor a disk")                  \
  X(kReadOnly, EROFS, "it is read-only")                                           \
  X(kFileTooLarge, EFBIG, "the file would be too large")                           \
  X(kInterrupted, EINTR, "it was interrupted")                                     \
  X(kTimedOut, ETIMEDOUT, "the deadline passed first")                             \
  X(kShutDown, ESHUTDOWN, "it has been shut down")                                 \
  X(kUnsupported, EOPNOTSUPP, "it is not supported here")                          \
  X(kNoThread, EAGAIN, "the system allows no further thread, or no memory for one") \
  X(kSystem, EIO, "the operating system refused")

enum class Reason : std::uint16_t {
#define TW_REASON_ENUM(name, number, sentence) name,
  TW_REASONS(TW_REASON_ENUM)
#undef TW_REASON_ENUM
};

std::string_view sentence_of(Reason reason);
int errno_of(Reason reason);
// For base/, fs/block and --posix alone, which receive an errno from the system.
Reason reason_of_errno(int error_number);

}  // namespace tidewheel
