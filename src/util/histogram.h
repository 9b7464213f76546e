// Durations in buckets of about 3 % width: percentiles in fixed memory.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace hipgraft::util {

// Values may be added and read by any thread; what is read meanwhile is some moment's state.
class Histogram {
 public:
  void add(std::uint64_t value) {
    buckets_[bucket_of(value)].fetch_add(1, std::memory_order_relaxed);
    std::uint64_t max = max_.load(std::memory_order_relaxed);
    while (value > max && !max_.compare_exchange_weak(max, value, std::memory_order_relaxed)) {
    }
  }

  std::uint64_t count() const {
    std::uint64_t total = 0;
    for (const auto& bucket : buckets_) total += bucket.load(std::memory_order_relaxed);
    return total;
  }
  std::uint64_t max() const { return max_.load(std::memory_order_relaxed); }

  // The value that a share of `quantile` (0 to 1) of all values does not exceed, to within the
  // width of a bucket. 0 when empty.
  std::uint64_t quantile(double quantile) const {
    const std::uint64_t total = count();
    if (total == 0) return 0;
    const auto rank = static_cast<std::uint64_t>(quantile * static_cast<double>(total - 1));
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      seen += buckets_[bucket].load(std::memory_order_relaxed);
      if (seen > rank) return middle_of(bucket);
    }
    return max();
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
  std::array<std::atomic<std::uint32_t>, kBuckets> buckets_{};
  std::atomic<std::uint64_t> max_{0};
};

}  // namespace hipgraft::util
