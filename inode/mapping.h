// inode/mapping.h: the pages of one file, by index, with tags dirty, writeback and to-write.
// Owns:      the tree nodes; the pages are the page cache's, which puts them in and takes them out.
// Threads:   thread-safe under mutex(); dirty_pages(), writeback_pages() and pages() without it.
// Locks:     mutex(): one of the page cache's stripes (rank kMapping), shared with other inodes, so never
//            held across I/O, a copy of page data, an allocation that may wait, or another mapping's lock.
//            A lock per inode was rejected: 64 bytes or more of each cached inode, for holds of 50 ns.
// Units:     page indexes, up to 2^54 (a size of 2^63 - 1 bytes).
// Invariant: (1) tag counts and tree bitmaps agree with the flags of the pages; (2) no page, no memory:
//            an empty mapping has no node; one page alone needs none; pages 0 to 7 share one array.
//
// Dirt is never lost: a writer sets the dirty tag (dirty_pages_ is a seq_cst RMW under mutex()) and then
// calls mark_dirty, which loads the state word. A flusher clears the state's class bits (begin_write,
// seq_cst RMW) and then reads the tags under mutex(). Whichever section of mutex() comes second sees the
// other side: the flusher the tag, or the writer the cleared bits.
#pragma once
#include <cstdint>

#include "base/atomic.h"
#include "base/sync.h"
#include "inode/page.h"
#include "inode/slab_pool.h"

namespace tidewheel {

class Inode;

// Locks and wait queues of many mappings; picked by inode number.
struct alignas(kCacheLine) MappingStripe {
  MappingStripe();
  Mutex mutex;
  CondVar changed;  // some page of some mapping here was unlocked, left writeback, or lost its readers
  std::uint32_t waiters TW_GUARDED_BY(mutex) = 0;

  void wait() TW_REQUIRES(mutex) {
    ++waiters;
    changed.wait(mutex);
    --waiters;
  }
  void wake() TW_REQUIRES(mutex) {
    if (waiters != 0) changed.notify_all();
  }
};

// Where mappings get tree nodes. Both answer null when the arena is out of pages.
class MappingNodes {
 public:
  explicit MappingNodes(PageArena& arena);
  struct Node;
  struct Array;
  Node* allocate_node();
  Array* allocate_array();
  void free(Node* node);
  void free(Array* array);
  std::uint64_t release_spares();
  std::uint64_t nodes() const { return nodes_.objects(); }
  std::uint64_t arrays() const { return arrays_.objects(); }

 private:
  SlabPool nodes_;
  SlabPool arrays_;
};

class Mapping {
 public:
  explicit Mapping(Inode& host) : host_(&host) {}
  ~Mapping();  // asserts that it is empty
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // Before its first page.
  void bind(MappingStripe& stripe, std::uint16_t stripe_number);
  Inode& host() const { return *host_; }
  Mutex& mutex() const TW_RETURN_CAPABILITY(stripe_->mutex) { return stripe_->mutex; }

  // Until a page of this stripe was unlocked, left writeback or lost its readers: look again, from the start.
  void wait_locked() TW_REQUIRES(mutex()) { stripe_->wait(); }
  void wake_locked() TW_REQUIRES(mutex()) { stripe_->wake(); }

  Page* find_locked(std::uint64_t index) const TW_REQUIRES(mutex());
  // May make the arena populate memory. False: no memory for nodes; nothing has changed. There must be no
  // page at `index`.
  bool insert_locked(std::uint64_t index, Page& page, MappingNodes& nodes) TW_REQUIRES(mutex());
  void erase_locked(Page& page, MappingNodes& nodes) TW_REQUIRES(mutex());  // its tags go too

  void set_tag_locked(Page& page, PageTag tag) TW_REQUIRES(mutex());
  void clear_tag_locked(Page& page, PageTag tag) TW_REQUIRES(mutex());
  // The first page at or after `from` (with the tag): cost by what it finds, not by what lies between.
  Page* next_locked(std::uint64_t from) const TW_REQUIRES(mutex());
  Page* next_tagged_locked(std::uint64_t from, PageTag tag) const TW_REQUIRES(mutex());
  // Up to `most` dirty pages of [from, end) get to-write as well: what a sync has to write, so that it ends
  // though writers go on. Answers where the next hold goes on; `end`: there are no more.
  std::uint64_t tag_to_write_locked(std::uint64_t from, std::uint64_t end, std::uint32_t most)
      TW_REQUIRES(mutex());
  std::uint32_t to_write_pages_locked() const TW_REQUIRES(mutex()) {
    return tag_count_[static_cast<unsigned>(PageTag::kToWrite)].load(std::memory_order_relaxed);
  }
  // Where the next pass of background writing begins. A hint: whatever it is, every dirty page has its turn.
  std::uint64_t writeback_index_locked() const TW_REQUIRES(mutex()) { return writeback_index_; }
  void set_writeback_index_locked(std::uint64_t index) TW_REQUIRES(mutex()) { writeback_index_ = index; }

  // Without the lock, as of some moment near.
  std::uint32_t pages() const { return pages_.load(std::memory_order_relaxed); }
  std::uint32_t dirty_pages() const { return tag_count_[0].load(std::memory_order_seq_cst); }
  std::uint32_t writeback_pages() const { return tag_count_[1].load(std::memory_order_seq_cst); }
  std::uint64_t dirty_bytes() const { return std::uint64_t{dirty_pages()} * kPageBytes; }
  void check_invariants_locked() const TW_REQUIRES(mutex());

 private:
  enum class Shape : std::uint8_t { kEmpty, kOne, kArray, kTree };
  using Node = MappingNodes::Node;
  using Array = MappingNodes::Array;

  Page* first_from(std::uint64_t from, int tag) const;  // tag < 0: any page
  // mapping_tree.cc; all under mutex()
  bool make_tree(MappingNodes& nodes);
  Page* tree_find(std::uint64_t index) const;
  bool tree_insert(std::uint64_t index, Page& page, MappingNodes& nodes);
  void tree_erase(std::uint64_t index, MappingNodes& nodes);
  void tree_tag(std::uint64_t index, PageTag tag, bool set);
  static Page* tree_next(const Node& node, std::uint64_t from, int tag);
  static void tree_check(const Node& node);

  Inode* host_;
  MappingStripe* stripe_ = nullptr;
  union {
    Page* one_ = nullptr;
    Array* array_;
    Node* root_;
  };
  std::uint64_t writeback_index_ = 0;  // under mutex()
  Atomic<std::uint32_t> pages_{0};         // written under mutex()
  Atomic<std::uint32_t> tag_count_[kPageTags];  // written under mutex(), seq_cst: see above
  std::uint16_t stripe_number_ = 0;
  Shape shape_ = Shape::kEmpty;
};

}  // namespace tidewheel
