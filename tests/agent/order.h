// Chance, for SOFTAGENT_ORDER=random.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

namespace softagent {

// One for each thread that has something to choose; `stream` keeps their choices apart.
class Chance {
 public:
  explicit Chance(uint64_t stream);

  size_t below(size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(engine_);
  }
  // Lets other queues get ahead now and then.
  void pause();

 private:
  std::mt19937_64 engine_;
};

}  // namespace softagent
