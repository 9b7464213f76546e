#include "ledger.h"

#include <algorithm>
#include <numeric>

namespace scenario {
namespace {

// A set of numbers below a bound known in advance.
class Rows {
 public:
  explicit Rows(std::size_t size) : words_((size + 63) / 64), bits_(words_ * size) {}
  void set(std::size_t row, std::size_t bit) { at(row)[bit / 64] |= std::uint64_t{1} << bit % 64; }
  bool test(std::size_t row, std::size_t bit) const {
    return (bits_[row * words_ + bit / 64] >> bit % 64 & 1) != 0;
  }
  void add_row(std::size_t row, std::size_t from) {
    for (std::size_t i = 0; i < words_; ++i) at(row)[i] |= at(from)[i];
  }

 private:
  std::uint64_t* at(std::size_t row) { return &bits_[row * words_]; }
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

// Row of a step: the steps that precede it.
Rows closure(const graph_order::Plan& plan) {
  const std::size_t count = plan.nodes().size();
  std::vector<std::vector<std::size_t>> parents(count);
  for (const auto& [from, to] : plan.edges()) parents[to].push_back(from);
  Rows before(count);
  for (const std::size_t step : graph_order::random_order(count, plan.edges(), 0)) {
    for (const std::size_t parent : parents[step]) {
      before.add_row(step, parent);
      before.set(step, parent);
    }
  }
  return before;
}

// The first argument of a touch; null for other nodes.
const Use* uses_of(hipGraphNode_t node) {
  hipGraphNodeType type{};
  HIP_CHECK(hipGraphNodeGetType(node, &type));
  if (type != hipGraphNodeTypeKernel) return nullptr;
  hipKernelNodeParams parameters{};
  HIP_CHECK(hipGraphKernelNodeGetParams(node, &parameters));
  return *static_cast<const Use* const*>(parameters.kernelParams[0]);
}

bool overlap(const LedgerBlock& a, const LedgerBlock& b) {
  return a.bytes < b.bytes + b.size && b.bytes < a.bytes + a.size;
}

// Calls with each pair of blocks that share bytes, the earlier one first.
template <class Visit>
void for_each_overlap(const std::vector<LedgerBlock>& blocks, Visit visit) {
  std::vector<std::uint32_t> by_address(blocks.size());
  std::iota(by_address.begin(), by_address.end(), 0U);
  std::stable_sort(by_address.begin(), by_address.end(), [&](std::uint32_t a, std::uint32_t b) {
    return blocks[a].bytes < blocks[b].bytes;
  });
  std::vector<std::uint32_t> open;
  for (const std::uint32_t index : by_address) {
    std::erase_if(open,
                  [&](std::uint32_t other) { return !overlap(blocks[other], blocks[index]); });
    for (const std::uint32_t other : open) visit(std::min(other, index), std::max(other, index));
    open.push_back(index);
  }
}

}  // namespace

Ledger::Ledger(std::size_t most_uses)
    : most_(most_uses),
      table_(apps::allocate_device_memory(most_uses * sizeof(Use))),
      found_(apps::allocate_device_memory(most_uses * sizeof(std::uint32_t))) {
  uses_.reserve(most_uses);
}

void Ledger::clear() {
  uses_.clear();
  block_of_use_.clear();
  touches_.clear();
  blocks_.clear();
}

std::uint32_t Ledger::add_block(void* bytes, std::uint64_t size, std::uint32_t capture) {
  blocks_.push_back({static_cast<unsigned char*>(bytes), size, capture});
  return blocks() - 1;
}

Ledger::Touch Ledger::add_uses(std::span<const std::uint32_t> blocks, bool may_be_first) {
  if (blocks.empty()) return {nullptr, nullptr, 0};
  const std::size_t begin = uses_.size();
  for (const std::uint32_t index : blocks) {
    const LedgerBlock& used = blocks_[index];
    const bool is_first = may_be_first && used.uses == 0;
    uses_.push_back({used.bytes, used.size, index + 1, is_first ? 1U : 0U});
    block_of_use_.push_back(index);
  }
  return {static_cast<const Use*>(table_.get()) + begin,
          static_cast<std::uint32_t*>(found_.get()) + begin,
          static_cast<std::uint32_t>(blocks.size())};
}

Ledger::Touch Ledger::record(std::span<const std::uint32_t> blocks) {
  const Touch touch = add_uses(blocks, true);
  for (const std::uint32_t index : blocks) ++blocks_[index].uses;
  if (touch.count != 0) touches_.emplace(touch.uses, touch.count);
  return touch;
}

Ledger::Touch Ledger::record_look(std::span<const std::uint32_t> blocks) {
  return add_uses(blocks, false);
}

std::string Ledger::describe(std::uint32_t index) const {
  const LedgerBlock& b = blocks_[index];
  return "block " + std::to_string(index) + " of capture " + std::to_string(b.capture) + " (" +
         std::to_string(b.size) + " bytes)";
}

bool Ledger::is_touch(hipGraphNode_t node) const { return touches_.contains(uses_of(node)); }

std::string Ledger::find_race(std::span<const graph_order::Plan* const> plans) const {
  std::vector<Rows> before;
  struct Step {
    std::size_t plan;
    std::size_t step;
  };
  std::vector<std::vector<Step>> steps(blocks_.size());
  for (std::size_t p = 0; p < plans.size(); ++p) {
    before.push_back(closure(*plans[p]));
    const auto& nodes = plans[p]->nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Use* uses = nodes[i] != nullptr ? uses_of(nodes[i]) : nullptr;
      const auto touch = touches_.find(uses);
      if (touch == touches_.end()) continue;
      const auto first = static_cast<std::size_t>(uses - static_cast<const Use*>(table_.get()));
      for (std::size_t u = first; u < first + touch->second; ++u) {
        steps[block_of_use_[u]].push_back({p, i});
      }
    }
  }
  for (std::uint32_t b = 0; b < blocks(); ++b) {
    if (reinterpret_cast<std::uintptr_t>(blocks_[b].bytes) % kTagUnit != 0) {
      return describe(b) + " is not aligned";
    }
    if (!steps[b].empty() && steps[b].size() != blocks_[b].uses) {
      return describe(b) + " is used by " + std::to_string(steps[b].size()) + " nodes, not " +
             std::to_string(blocks_[b].uses);
    }
  }
  std::string fault;
  for_each_overlap(blocks_, [&](std::uint32_t older, std::uint32_t younger) {
    const LedgerBlock& a = blocks_[older];
    const LedgerBlock& b = blocks_[younger];
    if (!fault.empty() || a.gone || b.gone) return;
    const auto blame = [&](const char* why) {
      fault = describe(older) + " and " + describe(younger) + ' ' + why;
    };
    if (a.capture != b.capture) return blame("share bytes while both captures' graphs live");
    if (a.freed_after == 0 || a.freed_after > younger) return blame("are alive in the same bytes");
    for (const Step& first : steps[older]) {
      for (const Step& second : steps[younger]) {
        if (first.plan != second.plan || !before[first.plan].test(second.step, first.step)) {
          return blame("share bytes but the graph does not order their uses");
        }
      }
    }
  });
  return fault;
}

std::uint32_t Ledger::reused() const {
  std::vector<bool> reuses(blocks_.size());
  for_each_overlap(blocks_, [&](std::uint32_t older, std::uint32_t younger) {
    if (blocks_[older].capture == blocks_[younger].capture) reuses[younger] = true;
  });
  return static_cast<std::uint32_t>(std::count(reuses.begin(), reuses.end(), true));
}

void Ledger::prepare() {
  if (uses_.empty()) return;
  HIP_CHECK(hipDeviceSynchronize());
  HIP_CHECK(
      hipMemcpy(table_.get(), uses_.data(), uses_.size() * sizeof(Use), hipMemcpyHostToDevice));
  HIP_CHECK(hipMemset(found_.get(), 0, uses_.size() * sizeof(std::uint32_t)));
  HIP_CHECK(hipDeviceSynchronize());
}

std::string Ledger::wrong_tag() const {
  HIP_CHECK(hipDeviceSynchronize());
  std::vector<std::uint32_t> found(uses_.size());
  if (found.empty()) return {};
  HIP_CHECK(hipMemcpy(found.data(), found_.get(), found.size() * sizeof(std::uint32_t),
                      hipMemcpyDeviceToHost));
  for (std::size_t u = 0; u < found.size(); ++u) {
    if (found[u] == 0) continue;
    const std::uint32_t tag = found[u] & ~kWrongTag;
    const bool is_known = tag - 1 < blocks();  // a block shorter than a tag has a part of it
    return describe(block_of_use_[u]) + ": use " + std::to_string(u) + " found " +
           (is_known ? "the tag of " + describe(tag - 1) : "tag " + std::to_string(tag));
  }
  return {};
}

}  // namespace scenario
