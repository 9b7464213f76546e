#include "measurements.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>

namespace apps {

Distribution summarize(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  const std::size_t last = samples.size() - 1;
  return {samples[last / 2], samples[last * 99 / 100], samples[last]};
}

std::optional<std::uint64_t> agent_calls(const char* function) {
  using Count = std::uint64_t (*)(const char*);
  // Looked up, since the program also runs on a real HSA runtime.
  const auto count = reinterpret_cast<Count>(dlsym(RTLD_DEFAULT, "softagent_count"));
  if (count == nullptr) return std::nullopt;
  return count(function);
}

}  // namespace apps
