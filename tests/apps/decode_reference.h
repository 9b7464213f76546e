// The decode on the CPU, with memory that is never reused and nothing that can be out of order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "decode_plan.h"

namespace decode {

class Reference {
 public:
  explicit Reference(const Plan& plan);

  /// The output for the next token; its input is make_input's.
  std::vector<std::uint32_t> run_token();

 private:
  using Values = std::vector<std::uint32_t>;

  void run(const Launch& launch, std::vector<Values>& cache);
  Values& at(Buffer buffer) { return buffers_[static_cast<std::size_t>(buffer)]; }

  const Plan& plan_;
  std::array<Values, kBuffers> buffers_;
  std::vector<std::vector<Values>> caches_;  // by layer and slot
  std::uint32_t position_ = 0;
};

}  // namespace decode
