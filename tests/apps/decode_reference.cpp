#include "decode_reference.h"

#include <bit>
#include <cstddef>

#include "decode_kernels.h"

namespace decode {
namespace {

std::uint32_t hash_step(std::uint32_t state, std::uint32_t word) {
  state = std::rotl(state ^ word, 13);
  return state + (state << 2) + 0xe6546b64u;
}

}  // namespace

Reference::Reference(const Plan& plan) : plan_(plan), caches_(plan.layers.size()) {
  for (Values& buffer : buffers_) buffer.resize(plan.width);
  for (std::vector<Values>& cache : caches_) cache.assign(kSlots, Values(plan.width));
}

std::vector<std::uint32_t> Reference::run_token() {
  const Values input = make_input(plan_.width, position_);
  Values& hidden = at(Buffer::kHidden);
  for (std::uint32_t i = 0; i < plan_.width; ++i) hidden[i] = hash_step(i, input[i]);
  for (std::size_t layer = 0; layer < plan_.layers.size(); ++layer) {
    for (const Launch& launch : plan_.layers[layer]) run(launch, caches_[layer]);
  }
  Values output(plan_.width);
  for (std::uint32_t i = 0; i < plan_.width; ++i) {
    output[i] = i;
    for (std::uint32_t value : hidden) output[i] = hash_step(output[i], value);
  }
  ++position_;
  return output;
}

void Reference::run(const Launch& launch, std::vector<Values>& cache) {
  Values& target = at(launch.target);
  const Values source = at(launch.source);
  switch (launch.kernel) {
    case Kernel::kProject:
      for (std::uint32_t i = 0; i < plan_.width; ++i) {
        const std::uint32_t other = source[(i + launch.weight) % plan_.width];
        target[i] = hash_step(source[i] * (launch.weight | 1), other);
      }
      return;
    case Kernel::kAttend:
      cache[position_ % kSlots] = source;
      target.assign(plan_.width, position_);
      for (const Values& slot : cache) {
        for (std::uint32_t i = 0; i < plan_.width; ++i) target[i] = hash_step(target[i], slot[i]);
      }
      return;
    case Kernel::kAccumulate:
      for (std::uint32_t i = 0; i < plan_.width; ++i) target[i] = hash_step(target[i], source[i]);
      return;
  }
}

}  // namespace decode
