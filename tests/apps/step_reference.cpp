#include "step_reference.h"

#include <algorithm>
#include <cstddef>

namespace sim {
namespace {

using Values = std::vector<std::uint32_t>;

std::uint32_t blend(std::uint32_t first, std::uint32_t second) {
  std::uint32_t sum = first + second * 0x9e3779b1u;
  sum = (sum ^ (sum >> 15)) * 0x2c1b3c6du;
  return sum ^ (sum >> 13);
}

std::uint32_t at_wrapped(const Values& values, std::uint32_t index) {
  return values[index % static_cast<std::uint32_t>(values.size())];
}

template <typename Update>
void update_all(Values& target, Update update) {
  for (std::uint32_t i = 0; i < target.size(); ++i) target[i] = update(i, target[i]);
}

void gather_from(Values& target, const Values& field, std::uint32_t salt) {
  update_all(target, [&](std::uint32_t i, std::uint32_t value) {
    return blend(value ^ salt, at_wrapped(field, i * 7 + salt));
  });
}

void couple_to(Values& target, const Values& other, std::uint32_t salt) {
  update_all(target, [&](std::uint32_t i, std::uint32_t value) {
    return blend(value, at_wrapped(other, i + salt));
  });
}

void relax_all(Values& target, std::uint32_t salt) {
  update_all(target, [&](std::uint32_t i, std::uint32_t value) { return blend(value, i + salt); });
}

void advect_by(Values& target, const Values& previous, Stencil stencil) {
  update_all(target, [&](std::uint32_t i, std::uint32_t value) {
    value = blend(value, stencil.salt);
    for (std::uint32_t round = 0; round < stencil.rounds; ++round) {
      value = blend(value, at_wrapped(previous, i + round * stencil.reach));
    }
    return value;
  });
}

void integrate_into(Values& field, const Values& values, std::uint32_t salt) {
  for (std::uint32_t& value : field) value ^= salt;
  const std::size_t reach = std::max(field.size(), values.size());
  for (std::size_t j = 0; j < reach; ++j) {
    std::uint32_t& value = field[j % field.size()];
    value = blend(value, values[j % values.size()]);
  }
}

}  // namespace

Reference::Reference(const Plan& plan) : plan_(plan), buffers_(plan.counts.size()) {
  for (std::size_t field = 0; field < plan.fields; ++field) {
    buffers_[field].resize(plan.counts[field]);
    update_all(buffers_[field],
               [field](std::uint32_t i, std::uint32_t) { return initial_value(field, i); });
  }
}

void Reference::run_step() {
  for (const Op& op : plan_.ops) run(op);
}

const std::vector<std::uint32_t>& Reference::field(std::size_t index) const {
  return buffers_[index];
}

void Reference::run(const Op& op) {
  Values& target = buffers_[op.target];
  const Values& source = buffers_[op.source];
  switch (op.kind) {
    case OpKind::kAlloc:
      target.resize(plan_.counts[op.target]);
      return;
    case OpKind::kFree:
      target.clear();
      return;
    case OpKind::kFill:
      std::ranges::fill(target, (op.salt & 0xffu) * 0x01010101u);
      return;
    case OpKind::kGather:
      return gather_from(target, source, op.salt);
    case OpKind::kCouple:
      return couple_to(target, source, op.salt);
    case OpKind::kRelax:
      return relax_all(target, op.salt);
    case OpKind::kAdvect:
      return advect_by(target, source, stencil_of(op));
    case OpKind::kIntegrate:
      return integrate_into(target, source, op.salt);
    case OpKind::kFork:
    case OpKind::kJoin:
      return;
  }
}

}  // namespace sim
