// A store comes and goes: making and opening one, saving its index, unmounting, abandoning.
#include <algorithm>
#include <cstring>
#include <utility>

#include "fs/flat/aligned_buffer.h"
#include "fs/flat/flat_header.h"
#include "fs/flat/flat_store.h"
#include "writeback/context.h"

namespace tidewheel {

namespace {

constexpr std::uint64_t kFirstDataBlock = 1;  // after the header
constexpr std::size_t kStreamBlocks = 256;    // 1 MiB at a time

constexpr std::size_t kLinkBytes = kBlockBytes - FileIndex::kBlockWords * sizeof(std::uint64_t);
static_assert(kLinkBytes == 2 * sizeof(std::uint64_t));

bool within(const BlockExtent& extent, std::uint64_t device_blocks) {
  return extent.blocks != 0 && extent.block >= kFirstDataBlock && extent.block < device_blocks &&
         extent.blocks <= device_blocks - extent.block;
}

// The words of a saved index, one after the other over a chain of extents, with their CRC: a full device has
// its last free blocks in any number of places. Each block begins with two words; in the first block of an
// extent they say which extent follows, elsewhere they are 0.
// A file is: key, size, number of extents, then (page, block, pages) of each.
class IndexWriter {
 public:
  IndexWriter(BlockDevice& device, std::span<const BlockExtent> extents)
      : device_(device), extents_(extents), buffer_(kStreamBlocks) {}

  Result<void> put(std::span<const std::uint64_t> words) {
    for (const std::uint64_t word : words) {
      if (at_ % kBlockBytes == 0) at_ += kLinkBytes;
      std::memcpy(buffer_.span().data() + at_, &word, sizeof word);
      at_ += sizeof word;
      if (at_ == buffer_.span().size()) TW_TRY(write_out());
    }
    return {};
  }
  Result<void> finish() { return at_ == 0 ? Result<void>{} : write_out(); }
  // Of whole blocks, with the zeros at the end.
  std::uint32_t crc() const { return crc_; }

 private:
  Result<void> write_out() {
    const std::uint64_t blocks = (at_ + kBlockBytes - 1) / kBlockBytes;
    for (std::uint64_t done = 0; done < blocks;) {
      TW_ASSERT(extent_ < extents_.size(), "the index is longer than was counted");
      const BlockExtent& extent = extents_[extent_];
      const std::uint64_t n = std::min(blocks - done, extent.blocks - block_);
      const auto part = buffer_.span().subspan(done * kBlockBytes, n * kBlockBytes);
      if (block_ == 0 && extent_ + 1 < extents_.size()) {
        std::memcpy(part.data(), &extents_[extent_ + 1].block, sizeof(std::uint64_t));
        std::memcpy(part.data() + sizeof(std::uint64_t), &extents_[extent_ + 1].blocks,
                    sizeof(std::uint64_t));
      }
      crc_ = crc32c(crc_, part.data(), part.size());
      TW_TRY(device_.write((extent.block + block_) * kBlockBytes, part, IoCause::kMetadata));
      block_ += n;
      done += n;
      if (block_ == extent.blocks) {
        ++extent_;
        block_ = 0;
      }
    }
    std::memset(buffer_.span().data(), 0, buffer_.span().size());
    at_ = 0;
    return {};
  }

  BlockDevice& device_;
  const std::span<const BlockExtent> extents_;
  AlignedBuffer buffer_;
  std::size_t at_ = 0;  // in the buffer; its first block is block_ of extent_
  std::size_t extent_ = 0;
  std::uint64_t block_ = 0;
  std::uint32_t crc_ = 0;
};

// The same, read. kCorrupt: the chain leaves the device, or ends too early.
class IndexReader {
 public:
  IndexReader(BlockDevice& device, BlockExtent first, std::uint64_t device_blocks)
      : device_(device), device_blocks_(device_blocks), extent_(first), buffer_(kStreamBlocks) {}

  Result<std::uint64_t> get() {
    if (at_ == filled_) TW_TRY(read_in());
    if (at_ % kBlockBytes == 0) at_ += kLinkBytes;
    std::uint64_t word;
    std::memcpy(&word, buffer_.span().data() + at_, sizeof word);
    at_ += sizeof word;
    return word;
  }
  std::uint32_t crc() const { return crc_; }  // of what was read in so far

 private:
  // Up to a buffer of what follows; never across the end of an extent.
  Result<void> read_in() {
    const bool first_of_extent = block_ == 0;
    if (!within(extent_, device_blocks_)) return TW_FAIL(kCorrupt);
    const std::uint64_t n = std::min<std::uint64_t>(kStreamBlocks, extent_.blocks - block_);
    const auto part = buffer_.span().first(n * kBlockBytes);
    TW_TRY(device_.read((extent_.block + block_) * kBlockBytes, part, IoCause::kMetadata));
    crc_ = crc32c(crc_, part.data(), part.size());
    if (first_of_extent) {
      std::memcpy(&next_.block, part.data(), sizeof(std::uint64_t));
      std::memcpy(&next_.blocks, part.data() + sizeof(std::uint64_t), sizeof(std::uint64_t));
    }
    block_ += n;
    if (block_ == extent_.blocks) {
      extent_ = std::exchange(next_, {});
      block_ = 0;
    }
    at_ = 0;
    filled_ = part.size();
    return {};
  }

  BlockDevice& device_;
  const std::uint64_t device_blocks_;
  BlockExtent extent_, next_;
  std::uint64_t block_ = 0;  // of extent_, to be read next
  AlignedBuffer buffer_;
  std::size_t at_ = 0, filled_ = 0;
  std::uint32_t crc_ = 0;
};

}  // namespace

FlatStore::FlatStore(BlockDevice& device, WritebackEngine& engine, MemoryBudget& budget,
                     const FlatStoreOptions& options)
    : device_(device),
      engine_(engine),
      budget_(budget),
      options_(options),
      device_blocks_(device.size_bytes() / kBlockBytes),
      allocator_(kFirstDataBlock, device_blocks_),
      sink_(engine) {}

Result<std::unique_ptr<FlatStore>> FlatStore::make(BlockDevice& device, WritebackEngine& engine,
                                                   MemoryBudget& budget, const FlatStoreOptions& options) {
  if (options.device_bytes > device.size_bytes()) TW_TRY(device.grow(options.device_bytes));
  const std::uint64_t blocks = device.size_bytes() / kBlockBytes;
  if (blocks <= kFirstDataBlock || options.owners == 0) return TW_FAIL(kInvalidArgument);
  if (blocks > FileIndex::kMaxDeviceBlocks) return TW_FAIL(kFileTooLarge);
  TW_ASSERT(kBlockBytes % device.block_bytes() == 0, "the device has larger blocks than the store");

  std::unique_ptr<FlatStore> store(new FlatStore(device, engine, budget, options));
  auto arena =
      PageArena::make(budget, {.max_bytes = options.memory_limit_bytes, .huge_pages = options.huge_pages});
  if (!arena) return Unexpected(arena.error());
  store->arena_ = std::move(arena).value();
  store->pages_ =
      std::make_unique<PageCache>(*store->arena_, store->sink_, PageCacheOptions{.reclaim = options.reclaim});
  store->inodes_ = std::make_unique<InodeCache>(
      *store->pages_, static_cast<InodeSource&>(*store),
      InodeCacheOptions{.memory_limit_bytes = options.memory_limit_bytes, .reclaim = options.reclaim});
  store->index_ = std::make_unique<FileIndex>(*store->pages_, budget, blocks - kFirstDataBlock);
  // What owners' writers are held to is the speed of the one device.
  const auto backing = std::make_shared<BackingDevice>(BackingDeviceOptions{.name = "flat"});
  for (std::uint32_t owner = 0; owner < options.owners; ++owner) {
    Error why;
    WritebackContext* context =
        engine.add_context(*store, {.name = "flat-" + std::to_string(owner), .device = backing}, &why);
    if (context == nullptr) return Unexpected(why);
    store->contexts_.push_back(context);
    store->context_ids_.push_back(context->id());
  }
  return store;
}

Result<std::unique_ptr<FlatStore>> FlatStore::format(BlockDevice& device, WritebackEngine& engine,
                                                     MemoryBudget& budget, const FlatStoreOptions& options) {
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
                               .index = {}}));
  (*store)->mounted_ = true;
  return store;
}

Result<std::unique_ptr<FlatStore>> FlatStore::mount(BlockDevice& device, WritebackEngine& engine,
                                                    MemoryBudget& budget, const FlatStoreOptions& options) {
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
  header->index = {};
  TW_TRY(write_header(device, *header));
  (*store)->mounted_ = true;
  return store;
}

Result<void> FlatStore::load_index(const FlatHeader& header) {
  IndexReader stream(device_, header.index, header.device_blocks);
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
    if (*size > FileIndex::kMaxFileBytes || *count > header.index_bytes / sizeof(FileExtent)) {
      return TW_FAIL(kCorrupt);
    }
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
  if (words * sizeof(std::uint64_t) != header.index_bytes || stream.crc() != header.index_crc) {
    return TW_FAIL(kCorrupt);
  }
  return {};
}

// The words were set aside as the files were made, so the allocator has the blocks.
Result<void> FlatStore::save_index(FlatHeader& header, std::vector<BlockExtent>& extents) {
  const std::uint64_t words = index_->index_words();
  header.files = index_->stats().files;
  header.index_bytes = words * sizeof(std::uint64_t);
  allocator_.allocate((words + FileIndex::kBlockWords - 1) / FileIndex::kBlockWords, extents);
  if (!extents.empty()) header.index = extents.front();

  IndexWriter stream(device_, extents);
  std::uint64_t written = 0;
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
    written += shard_words.size();
  }
  TW_TRY(stream.finish());
  if (written != words) return TW_FAIL(kBusy);  // an unlinked file is open still
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
                      .index = {}};
    std::vector<BlockExtent> extents;
    Result<void> saved = save_index(header, extents);
    // The index is durable before the header that points to it: the header's write is the commit point.
    if (saved) saved = device_.flush(IoCause::kMetadata);
    if (saved) saved = write_header(device_, header);
    if (!saved) {
      allocator_.free(extents.data(), extents.size());
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
  // All owners before any is removed: the end of a write may move its file to another one's context.
  if (mounted_ && contexts_.size() > 1) (void)engine_.sync_all(*this);
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
