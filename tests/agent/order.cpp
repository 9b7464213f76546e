#include "order.h"

#include <chrono>
#include <thread>

#include "options.h"

namespace softagent {

Chance::Chance(uint64_t stream) {
  std::seed_seq seed{options().seed, stream};
  engine_.seed(seed);
}

void Chance::pause() {
  constexpr size_t longest_us = 64;
  if (below(2) == 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(below(longest_us)));
}

}  // namespace softagent
