#include "fs/trans/intent_item.h"

#include <cstring>

#include "fs/ail/ail.h"
#include "fs/item/log_image.h"

namespace tidewheel {

IntentItem::IntentItem(Ail& ail, disk::LogItemType type, std::uint64_t id, std::uint32_t count,
                       std::span<const std::byte> things)
    : ail_(ail), type_(type), id_(id), count_(count), things_(things.begin(), things.end()) {
  TW_ASSERT(count > 0, "an intent of nothing");
  TW_ASSERT(count <= disk::kMaxIntentThings, "an intent of more than the log's format takes");
}

LogItem::LogSize IntentItem::size() const noexcept {
  return {1, static_cast<std::uint32_t>(sizeof(disk::IntentFormat) + things_.size())};
}

void IntentItem::format(LogVectorWriter& out) noexcept {
  const std::span<std::byte> region = out.begin_region(size().bytes);
  disk::IntentFormat format{};
  format.item.type = static_cast<std::uint16_t>(type_);
  format.item.regions = 1;
  format.count = count_;
  format.id = id_;
  std::memcpy(region.data(), &format, sizeof format);
  std::memcpy(region.data() + sizeof format, things_.data(), things_.size());
  out.end_region(static_cast<std::uint32_t>(region.size()));
}

void IntentItem::drop_reference() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  LogItem* const one[] = {this};
  ail_.remove(one);
  delete this;
}

void IntentItem::release() noexcept { drop_reference(); }

void IntentItem::unpin(bool) noexcept { drop_reference(); }

void DoneItem::format(LogVectorWriter& out) noexcept {
  disk::DoneFormat format{};
  format.item.type = static_cast<std::uint16_t>(type_);
  format.item.regions = 1;
  format.count = intent_.count();
  format.intent_id = intent_.id();
  out.region(std::as_bytes(std::span(&format, 1)));
}

void DoneItem::end() {
  IntentItem& intent = intent_;
  delete this;
  intent.drop_reference();
}

}  // namespace tidewheel
