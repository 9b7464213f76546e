#include "decode_plan.h"

#include <algorithm>

namespace decode {
namespace {

Layer make_layer(std::uint32_t launches, std::uint32_t first_weight) {
  Layer layer;
  Buffer current = Buffer::kHidden;
  for (std::uint32_t i = 0; i + 1 < launches; ++i) {
    const Buffer target = current == Buffer::kFirst ? Buffer::kSecond : Buffer::kFirst;
    layer.push_back(
        {i == 1 ? Kernel::kAttend : Kernel::kProject, target, current, first_weight + i});
    current = target;
  }
  layer.push_back({Kernel::kAccumulate, Buffer::kHidden, current});
  return layer;
}

}  // namespace

std::size_t Plan::launches() const {
  std::size_t sum = 2;
  for (const Layer& layer : layers) sum += layer.size();
  return sum;
}

Plan make_plan(std::uint32_t launches, std::uint32_t width) {
  Plan plan{width, {}};
  for (std::uint32_t made = 2; made < launches;) {
    const std::uint32_t size = std::min(kLayerLaunches, launches - made);
    plan.layers.push_back(make_layer(size, made));
    made += size;
  }
  return plan;
}

std::vector<std::uint32_t> make_input(std::uint32_t width, std::uint32_t position) {
  std::vector<std::uint32_t> input;
  for (std::uint32_t i = 0; i < width; ++i) input.push_back((position + 1) * 0x9e3779b1u + i);
  input.push_back(position);
  return input;
}

}  // namespace decode
