#include "fs/item/log_item.h"

#include <new>

#include "base/assert.h"
#include "fs/item/cil_entry.h"

namespace tidewheel {

LogImage::Owned LogImage::make(std::uint32_t least_bytes) {
  const std::uint32_t number = class_of(least_bytes);
  const std::uint32_t capacity = number < kClasses ? bytes_of_class(number) : least_bytes;
  auto* const image = new (::operator new(sizeof(LogImage) + capacity)) LogImage;
  image->capacity = capacity;
  return Owned(image);
}

void LogImage::Free::operator()(LogImage* image) const { ::operator delete(image); }

LogItem::LogItem() = default;

LogItem::~LogItem() { TW_ASSERT(!in_ail, "a log item ends while it is in the AIL"); }

}  // namespace tidewheel
