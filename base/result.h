// base/result.h: a value or the reason why there is none.
// Owns:      the value. Error is 8 bytes, so Result<uint64_t> comes back in registers.
// Threads:   a value type; no sharing.
// Errors:    [[nodiscard]]; value() of an error asserts.
// Source:    a strict subset of std::expected<T, Error> (C++23), of which it becomes an alias.
#pragma once
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/reason.h"

namespace tidewheel {

struct Error {
  Reason code = Reason::kOk;
  std::uint16_t line = 0;    // source line that raised it
  std::uint32_t detail = 0;  // what `code` says it is: an errno, a block, a count

  friend bool operator==(const Error& a, const Error& b) { return a.code == b.code; }
  std::string_view sentence() const { return sentence_of(code); }
};

class Unexpected {
 public:
  explicit constexpr Unexpected(Error error) : error_(error) {}
  constexpr Error error() const { return error_; }

 private:
  Error error_;
};

// Raises an error here: `return TW_FAIL(kNoSpace);`, `return TW_FAIL_WITH(kSystem, errno);`
#define TW_FAIL(reason) TW_FAIL_WITH(reason, 0)
#define TW_FAIL_WITH(reason, detail_value)                          \
  ::tidewheel::Unexpected(::tidewheel::Error{                       \
      ::tidewheel::Reason::reason, static_cast<std::uint16_t>(__LINE__), \
      static_cast<std::uint32_t>(detail_value)})
// Leaves the function with the error of a Result expression that has no value to keep.
#define TW_TRY(expr)                                                    \
  do {                                                                  \
    if (auto tw_try_result = (expr); !tw_try_result.has_value()) {      \
      return ::tidewheel::Unexpected(tw_try_result.error());            \
    }                                                                   \
  } while (0)

template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : error_{}, value_(std::move(value)) {}  // NOLINT: implicit as in std::expected
  Result(Unexpected unexpected) : error_(unexpected.error()), none_{} {  // NOLINT
    TW_ASSERT(error_.code != Reason::kOk, "an error needs a reason");
  }
  Result(const Result&) requires std::is_trivially_copy_constructible_v<T> = default;
  Result(Result&&) requires std::is_trivially_move_constructible_v<T> = default;
  Result(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>)
    requires(!std::is_trivially_move_constructible_v<T>)
      : error_(other.error_), none_{} {
    if (has_value()) ::new (&value_) T(std::move(other.value_));
  }
  Result& operator=(const Result&) requires std::is_trivially_copy_assignable_v<T> = default;
  Result& operator=(Result&&) requires std::is_trivially_move_assignable_v<T> = default;
  Result& operator=(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>)
    requires(!std::is_trivially_move_assignable_v<T>)
  {
    if (this != &other) {
      this->~Result();
      ::new (this) Result(std::move(other));
    }
    return *this;
  }
  ~Result() requires std::is_trivially_destructible_v<T> = default;
  ~Result() requires(!std::is_trivially_destructible_v<T>) {
    if (has_value()) value_.~T();
  }

  bool has_value() const { return error_.code == Reason::kOk; }
  explicit operator bool() const { return has_value(); }
  T& value() & {
    TW_ASSERT(has_value(), "value() of an error");
    return value_;
  }
  const T& value() const& {
    TW_ASSERT(has_value(), "value() of an error");
    return value_;
  }
  T&& value() && {
    TW_ASSERT(has_value(), "value() of an error");
    return std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error error() const { return error_; }

 private:
  Error error_;
  union {
    T value_;
    char none_;
  };
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  Result() = default;
  Result(Unexpected unexpected) : error_(unexpected.error()) {  // NOLINT: implicit as in std::expected
    TW_ASSERT(error_.code != Reason::kOk, "an error needs a reason");
  }
  bool has_value() const { return error_.code == Reason::kOk; }
  explicit operator bool() const { return has_value(); }
  void value() const { TW_ASSERT(has_value(), "value() of an error"); }
  Error error() const { return error_; }

 private:
  Error error_{};
};

}  // namespace tidewheel
