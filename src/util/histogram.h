// Durations in buckets of about 3 % width: percentiles in fixed memory.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace hipgraft::util {

class Histogram {
 public:
  void add(std::uint64_t value) {
    ++buckets_[bucket_of(value)];
    ++count_;
    if (value > max_) max_ = value;
  }

  std::uint64_t count() const { return count_; }
  std::uint64_t max() const { return max_; }

  // The value that a share of `quantile` (0 to 1) of all values does not exceed, to within the
  // width of a bucket. 0 when empty.
  std::uint64_t quantile(double quantile) const {
    if (count_ == 0) return 0;
    const auto rank = static_cast<std::uint64_t>(quantile * static_cast<double>(count_ - 1));
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      seen += buckets_[bucket];
      if (seen > rank) return middle_of(bucket);
    }
    return max_;
  }

 private:
  static constexpr unsigned kSubBits = 5;  // 32 buckets an octave
  static constexpr std::size_t kSub = 1U << kSubBits;

  static constexpr std::size_t bucket_of(std::uint64_t value) {
    if (value < kSub) return value;
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kSubBits - 1;
    const std::size_t bucket = (shift + 1) * kSub + ((value >> shift) - kSub);
    return bucket < kBuckets ? bucket : kBuckets - 1;
  }
  static constexpr std::uint64_t middle_of(std::size_t bucket) {
    if (bucket < kSub) return bucket;
    const std::size_t shift = bucket / kSub - 1;
    return ((kSub + bucket % kSub) << shift) + ((std::uint64_t{1} << shift) / 2);
  }

  static constexpr std::size_t kBuckets = kSub * 36;  // up to 2^40: 18 minutes in nanoseconds
  std::array<std::uint32_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace hipgraft::util
