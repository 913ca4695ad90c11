// A store comes and goes: making and opening one, saving its index, unmounting, abandoning.
#include <algorithm>
#include <cstring>

#include "fs/flat/aligned_buffer.h"
#include "fs/flat/flat_header.h"
#include "fs/flat/flat_store.h"
#include "writeback/context.h"

namespace tidewheel {

namespace {

constexpr std::uint64_t kFirstDataBlock = 1;  // after the header
constexpr std::size_t kStreamBlocks = 256;    // 1 MiB at a time

// The words of a saved index, one after the other over several extents, with their CRC.
// A file is: key, size, number of extents, then (page, block, pages) of each.
class IndexStream {
 public:
  IndexStream(BlockDevice& device, std::span<const BlockExtent> extents)
      : device_(device), extents_(extents), buffer_(kStreamBlocks) {}

  Result<void> put(std::span<const std::uint64_t> words) {
    for (const std::uint64_t word : words) {
      std::memcpy(buffer_.span().data() + at_, &word, sizeof word);
      at_ += sizeof word;
      if (at_ == buffer_.span().size()) TW_TRY(write_out());
    }
    return {};
  }
  Result<void> finish() {
    if (at_ == 0) return {};
    std::memset(buffer_.span().data() + at_, 0, buffer_.span().size() - at_);
    return write_out();
  }
  Result<std::uint64_t> get() {
    if (at_ == filled_) TW_TRY(read_in());
    std::uint64_t word;
    std::memcpy(&word, buffer_.span().data() + at_, sizeof word);
    at_ += sizeof word;
    return word;
  }
  // Of what was written, or read in so far: whole blocks, with the zeros at the end.
  std::uint32_t crc() const { return crc_; }

 private:
  Result<void> write_out() {
    const std::uint64_t blocks = (at_ + kBlockBytes - 1) / kBlockBytes;
    crc_ = crc32c(crc_, buffer_.span().data(), blocks * kBlockBytes);
    for (std::uint64_t done = 0; done < blocks;) {
      if (block_ == extents_[extent_].blocks) {
        ++extent_;
        block_ = 0;
      }
      TW_ASSERT(extent_ < extents_.size(), "the index is longer than was counted");
      const std::uint64_t n = std::min(blocks - done, extents_[extent_].blocks - block_);
      TW_TRY(device_.write((extents_[extent_].block + block_) * kBlockBytes,
                           buffer_.span().subspan(done * kBlockBytes, n * kBlockBytes), IoCause::kMetadata));
      block_ += n;
      done += n;
    }
    at_ = 0;
    return {};
  }
  // Up to a buffer of what follows; never across the end of an extent.
  Result<void> read_in() {
    while (extent_ < extents_.size() && block_ == extents_[extent_].blocks) {
      ++extent_;
      block_ = 0;
    }
    if (extent_ == extents_.size()) return TW_FAIL(kCorrupt);
    const std::uint64_t n = std::min<std::uint64_t>(kStreamBlocks, extents_[extent_].blocks - block_);
    TW_TRY(device_.read((extents_[extent_].block + block_) * kBlockBytes, buffer_.span().first(n * kBlockBytes),
                        IoCause::kMetadata));
    crc_ = crc32c(crc_, buffer_.span().data(), n * kBlockBytes);
    block_ += n;
    at_ = 0;
    filled_ = n * kBlockBytes;
    return {};
  }

  BlockDevice& device_;
  const std::span<const BlockExtent> extents_;
  AlignedBuffer buffer_;
  std::size_t at_ = 0, filled_ = 0;
  std::size_t extent_ = 0;
  std::uint64_t block_ = 0;  // within the extent
  std::uint32_t crc_ = 0;
};

}  // namespace

FlatStore::FlatStore(BlockDevice& device, WritebackEngine& engine, MemoryBudget& budget, const FlatStoreOptions& options)
    : device_(device),
      engine_(engine),
      budget_(budget),
      options_(options),
      device_blocks_(device.size_bytes() / kBlockBytes),
      allocator_(kFirstDataBlock, device_blocks_),
      sink_(engine) {}

Result<std::unique_ptr<FlatStore>> FlatStore::make(BlockDevice& device, WritebackEngine& engine, MemoryBudget& budget,
                                                   const FlatStoreOptions& options) {
  if (options.device_bytes > device.size_bytes()) TW_TRY(device.grow(options.device_bytes));
  const std::uint64_t blocks = device.size_bytes() / kBlockBytes;
  if (blocks <= kFirstDataBlock || options.owners == 0) return TW_FAIL(kInvalidArgument);
  if (blocks > FileIndex::kMaxDeviceBlocks) return TW_FAIL(kFileTooLarge);
  TW_ASSERT(kBlockBytes % device.block_bytes() == 0, "the device has larger blocks than the store");

  std::unique_ptr<FlatStore> store(new FlatStore(device, engine, budget, options));
  auto arena = PageArena::make(budget, {.max_bytes = options.memory_limit_bytes, .huge_pages = options.huge_pages});
  if (!arena) return Unexpected(arena.error());
  store->arena_ = std::move(arena).value();
  store->pages_ = std::make_unique<PageCache>(*store->arena_, store->sink_, PageCacheOptions{.reclaim = options.reclaim});
  store->inodes_ = std::make_unique<InodeCache>(
      *store->pages_, static_cast<InodeSource&>(*store),
      InodeCacheOptions{.memory_limit_bytes = options.memory_limit_bytes, .reclaim = options.reclaim});
  store->index_ = std::make_unique<FileIndex>(*store->pages_, budget, blocks - kFirstDataBlock);
  for (std::uint32_t owner = 0; owner < options.owners; ++owner) {
    WritebackContext* context = engine.add_context(*store, {.name = "flat-" + std::to_string(owner)});
    if (context == nullptr) return TW_FAIL(kShutDown);
    store->contexts_.push_back(context);
    store->context_ids_.push_back(context->id());
  }
  return store;
}

Result<std::unique_ptr<FlatStore>> FlatStore::format(BlockDevice& device, WritebackEngine& engine, MemoryBudget& budget,
                                                     const FlatStoreOptions& options) {
  const auto content = probe_device(device);
  // A damaged header of ours is ours all the same.
  if (!content && content.error().code != Reason::kCorrupt) return Unexpected(content.error());
  auto store = make(device, engine, budget, options);
  if (!store) return store;
  TW_TRY(write_header(device, {.state = FlatHeader::State::kInUse,
                               .seed = options.seed,
                               .device_blocks = (*store)->device_blocks_,
                               .files = 0,
                               .index_bytes = 0,
                               .index_crc = 0,
                               .index_extents = {}}));
  (*store)->mounted_ = true;
  return store;
}

Result<std::unique_ptr<FlatStore>> FlatStore::mount(BlockDevice& device, WritebackEngine& engine, MemoryBudget& budget,
                                                    const FlatStoreOptions& options) {
  if (!device.keeps_data()) return TW_FAIL(kUnsupported);
  const auto content = probe_device(device);
  if (!content) return Unexpected(content.error());
  if (*content == DeviceContent::kBlank) return TW_FAIL(kNotFound);
  auto header = read_header(device);
  if (!header) return Unexpected(header.error());
  if (header->state != FlatHeader::State::kClean) return TW_FAIL(kCorrupt);
  if (header->device_blocks > device.size_bytes() / kBlockBytes) return TW_FAIL(kCorrupt);
  auto store = make(device, engine, budget, options);
  if (!store) return store;
  TW_TRY((*store)->load_index(*header));
  // From here on what is on the device is only true together with what is in memory.
  header->state = FlatHeader::State::kInUse;
  header->index_extents.clear();
  TW_TRY(write_header(device, *header));
  (*store)->mounted_ = true;
  return store;
}

Result<void> FlatStore::load_index(const FlatHeader& header) {
  for (const BlockExtent& extent : header.index_extents) {
    if (extent.blocks == 0 || extent.block < kFirstDataBlock || extent.block >= header.device_blocks ||
        extent.blocks > header.device_blocks - extent.block) {
      return TW_FAIL(kCorrupt);
    }
  }
  IndexStream stream(device_, header.index_extents);
  std::vector<FileExtent> extents;
  std::uint64_t words = 0;
  const auto next = [&]() -> Result<std::uint64_t> {
    if (++words > header.index_bytes / sizeof(std::uint64_t)) return TW_FAIL(kCorrupt);
    return stream.get();
  };
  for (std::uint64_t n = 0; n < header.files; ++n) {
    const auto key = next();
    if (!key) return Unexpected(key.error());
    const auto size = next();
    if (!size) return Unexpected(size.error());
    const auto count = next();
    if (!count) return Unexpected(count.error());
    if (*size > FileIndex::kMaxFileBytes || *count > header.index_bytes / sizeof(FileExtent)) return TW_FAIL(kCorrupt);
    extents.clear();
    std::uint64_t end = 0;
    for (std::uint64_t i = 0; i < *count; ++i) {
      FileExtent extent;
      for (std::uint64_t* field : {&extent.page, &extent.block, &extent.pages}) {
        const auto word = next();
        if (!word) return Unexpected(word.error());
        *field = *word;
      }
      // Ascending, within the file, and in blocks that no other file has.
      constexpr std::uint64_t kMaxPages = FileIndex::kMaxFileBytes / kPageBytes + 1;
      if (extent.page < end || extent.page > kMaxPages || extent.pages > kMaxPages - extent.page ||
          !allocator_.take({extent.block, extent.pages})) {
        return TW_FAIL(kCorrupt);
      }
      end = extent.page + extent.pages;
      extents.push_back(extent);
    }
    if (Result<void> restored = index_->restore({{*key}, *size, extents}); !restored) {
      if (restored.error().code == Reason::kExists) return TW_FAIL(kCorrupt);
      return restored;
    }
  }
  if (words * sizeof(std::uint64_t) != header.index_bytes || stream.crc() != header.index_crc) return TW_FAIL(kCorrupt);
  return {};
}

Result<void> FlatStore::save_index(FlatHeader& header) {
  std::uint64_t words = 0;
  header.files = 0;
  for (std::uint32_t shard = 0; shard < FileIndex::kShards; ++shard) {
    index_->for_each(shard, [&](const FileIndex::File& file) {
      ++header.files;
      words += 3 + 3 * file.extents.size();
    });
  }
  header.index_bytes = words * sizeof(std::uint64_t);
  const std::uint64_t blocks = (header.index_bytes + kBlockBytes - 1) / kBlockBytes;
  if (blocks > index_->unreserved_blocks()) return TW_FAIL(kNoSpace);
  allocator_.allocate(blocks, header.index_extents);
  if (header.index_extents.size() > FlatHeader::kMaxIndexExtents) return TW_FAIL(kNoSpace);

  IndexStream stream(device_, header.index_extents);
  std::vector<std::uint64_t> shard_words;
  for (std::uint32_t shard = 0; shard < FileIndex::kShards; ++shard) {
    // Gathered under the shard's lock, written without it.
    shard_words.clear();
    index_->for_each(shard, [&](const FileIndex::File& file) {
      shard_words.insert(shard_words.end(), {file.key.value, file.size, file.extents.size()});
      for (const FileExtent& extent : file.extents) {
        shard_words.insert(shard_words.end(), {extent.page, extent.block, extent.pages});
      }
    });
    TW_TRY(stream.put(shard_words));
  }
  TW_TRY(stream.finish());
  header.index_crc = stream.crc();
  return {};
}

Result<void> FlatStore::unmount() {
  TW_ASSERT(mounted_, "a store is unmounted that is not mounted");
  TW_TRY(sync());
  if (device_.keeps_data()) {
    FlatHeader header{.state = FlatHeader::State::kClean,
                      .seed = options_.seed,
                      .device_blocks = device_blocks_,
                      .files = 0,
                      .index_bytes = 0,
                      .index_crc = 0,
                      .index_extents = {}};
    Result<void> saved = save_index(header);
    // The index is durable before the header that points to it: the header's write is the commit point.
    if (saved) saved = device_.flush(IoCause::kMetadata);
    if (saved) saved = write_header(device_, header);
    if (!saved) {
      allocator_.free(header.index_extents.data(), header.index_extents.size());
      return saved;
    }
  }
  mounted_ = false;
  drop_caches();
  for (WritebackContext*& context : contexts_) {
    if (context == nullptr) continue;
    TW_TRY(engine_.remove_context(*context));
    context = nullptr;
  }
  return {};
}

// What cannot be written is dropped: the device may be what failed.
void FlatStore::abandon() {
  giving_up_.store(true, std::memory_order_release);
  for (WritebackContext*& context : contexts_) {
    if (context == nullptr) continue;
    // The first write of each object may fail and be given up; then nothing is dirty.
    (void)engine_.sync(*context);
    const Result<void> removed = engine_.remove_context(*context);
    TW_ASSERT(removed.has_value(), "a store ends after its engine, or with files that are being written");
    context = nullptr;
  }
  if (inodes_ != nullptr) drop_caches();
}

FlatStore::~FlatStore() { abandon(); }

}  // namespace tidewheel
