// A value whose type need not be complete where its owner is seen. Copying it copies the value.
//
//   struct Cluster { Held<Framework> framework; ... };   // copies are defined where Framework is complete
//   cluster.framework->fragmentation                     // needs backends/machines/framework.h
//
// It converts to `T&`.
#pragma once

#include <memory>
#include <utility>

namespace boxcar::backends {

template <class T>
class Held {
 public:
  Held() : value_(std::make_unique<T>()) {}
  Held(T value) : value_(std::make_unique<T>(std::move(value))) {}  // NOLINT: as if it were a T
  Held(const Held& other) : value_(other.value_ ? std::make_unique<T>(*other.value_) : nullptr) {}
  Held(Held&& other) noexcept : value_(std::move(other.value_)) {}
  Held& operator=(Held other) noexcept {
    value_ = std::move(other.value_);
    return *this;
  }
  ~Held() = default;

  T* operator->() { return value_.get(); }
  const T* operator->() const { return value_.get(); }
  operator T&() { return *value_; }              // NOLINT
  operator const T&() const { return *value_; }  // NOLINT

  friend bool operator==(const Held& a, const Held& b) { return *a.value_ == *b.value_; }
  friend bool operator==(const Held& a, const T& b) { return *a.value_ == b; }

 private:
  std::unique_ptr<T> value_;  // null if it was moved from
};

}  // namespace boxcar::backends
