// A vector whose first elements need no heap. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace hipgraft::util {

template <class T, std::size_t Inline>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return size_ <= Inline ? near_.data() : far_.data(); }
  const T* data() const { return size_ <= Inline ? near_.data() : far_.data(); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](std::size_t index) { return data()[index]; }
  const T& operator[](std::size_t index) const { return data()[index]; }
  const T& front() const { return data()[0]; }

  // New elements are T{}. Never shrinks.
  void grow_to(std::size_t size) {
    if (size <= size_) return;
    if (size > Inline) {
      if (size_ <= Inline) far_.assign(near_.begin(), near_.begin() + size_);
      far_.resize(size);
    }
    size_ = size;
  }
  void push_back(const T& value) {
    grow_to(size_ + 1);
    data()[size_ - 1] = value;
  }

  bool operator==(const SmallVector& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  std::size_t size_ = 0;
  std::array<T, Inline> near_{};
  std::vector<T> far_;  // all elements, once there are more than `Inline`
};

}  // namespace hipgraft::util
