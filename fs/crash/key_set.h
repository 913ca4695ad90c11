// fs/crash/key_set.h: a set of 64-bit hashes from which nothing is removed one by one.
// Threads:   many readers or one writer.
// Note:      8 bytes a slot, at most half full.
#pragma once
#include <cstdint>
#include <vector>

namespace tidewheel {

class KeySet {
 public:
  KeySet() : slots_(kFewest) {}
  bool contains(std::uint64_t key) const { return slots_[place(named(key))] == named(key); }
  // Whether it is new.
  bool insert(std::uint64_t key) {
    if (contains(key)) return false;
    if (++used_ * 2 > slots_.size()) {
      std::vector<std::uint64_t> old(slots_.size() * 2);
      old.swap(slots_);
      for (const std::uint64_t k : old) {
        if (k != 0) slots_[place(k)] = k;
      }
    }
    slots_[place(named(key))] = named(key);
    return true;
  }
  void clear() {
    slots_.assign(kFewest, 0);
    used_ = 0;
  }

 private:
  static constexpr std::size_t kFewest = 1024;
  static std::uint64_t named(std::uint64_t key) { return key == 0 ? 1 : key; }  // 0 is an empty slot
  std::size_t place(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = (key * 0x9E3779B97F4A7C15ULL >> 20) & mask;
    while (slots_[at] != 0 && slots_[at] != key) at = (at + 1) & mask;
    return at;
  }
  std::vector<std::uint64_t> slots_;
  std::size_t used_ = 0;
};

}  // namespace tidewheel
