// timerwheel/typed.h: the way from a node to its element and back, for elements of one type.
// The wheel itself knows nodes only, so there is one copy of its code whatever the elements are.
#pragma once
#include <boost/intrusive/parent_from_member.hpp>
#include <cstddef>
#include <span>

#include "timerwheel/wheel.h"

namespace tidewheel {

// using Files = WheelElement<File, &File::node>;  Files::of(node) -> File&
template <class T, WheelNode T::* Member>
struct WheelElement {
  static T& of(WheelNode& node) { return *boost::intrusive::get_parent_from_member(&node, Member); }
  static WheelNode& node(T& element) { return element.*Member; }
};

// A wheel (one shard) of T. What needs no element is the base's own.
template <class T, WheelNode T::* Member>
class WheelOf : public Wheel {
 public:
  using Element = WheelElement<T, Member>;
  using Wheel::Wheel;

  void insert(T& element, Instant now) noexcept { Wheel::insert(Element::node(element), now); }
  void insert_at(T& element, Instant stamp, Instant now) noexcept {
    Wheel::insert_at(Element::node(element), stamp, now);
  }
  void remove(T& element) noexcept { Wheel::remove(Element::node(element)); }
  void insert_overdue(T& element, Instant now) noexcept {
    Wheel::insert_overdue(Element::node(element), now);
  }
  void requeue_front(T& element) noexcept { Wheel::requeue_front(Element::node(element)); }
  void append(SyncSet& set, T& element) noexcept { Wheel::append(set, Element::node(element)); }
  std::size_t claim(std::span<T*> out, Instant dirtied_before = Instant::max()) noexcept {
    WheelNode* nodes[kMaxClaim];
    return to_elements(nodes, Wheel::claim(std::span(nodes).first(bound(out)), dirtied_before), out);
  }
  std::size_t claim_from(SyncSet& set, std::span<T*> out) noexcept {
    WheelNode* nodes[kMaxClaim];
    return to_elements(nodes, Wheel::claim_from(set, std::span(nodes).first(bound(out))), out);
  }

 private:
  static std::size_t bound(std::span<T*> out) { return out.size() < kMaxClaim ? out.size() : kMaxClaim; }
  static std::size_t to_elements(WheelNode** nodes, std::size_t n, std::span<T*> out) {
    for (std::size_t i = 0; i < n; ++i) out[i] = &Element::of(*nodes[i]);
    return n;
  }
};

}  // namespace tidewheel
