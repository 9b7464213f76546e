// What the test programs measure about their own replays.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace apps {

struct Distribution {
  double median = 0;
  double p99 = 0;
  double max = 0;
};

/// All zero without samples.
Distribution summarize(std::vector<double> samples);

/// How often the HSA function was called so far, where the software agent runs the program.
std::optional<std::uint64_t> agent_calls(const char* function);

}  // namespace apps
