// The simulator step on the CPU, for comparison: every temporary has memory of its own and
// operations run one after another, so neither memory reuse nor ordering can go wrong.
#pragma once

#include <cstdint>
#include <vector>

#include "step_plan.h"

namespace sim {

class Reference {
 public:
  explicit Reference(const Plan& plan);

  void run_step();
  [[nodiscard]] const std::vector<std::uint32_t>& field(std::size_t index) const;

 private:
  void run(const Op& op);

  const Plan& plan_;
  std::vector<std::vector<std::uint32_t>> buffers_;
};

}  // namespace sim
