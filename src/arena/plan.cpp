#include "arena/plan.h"

#include <algorithm>
#include <numeric>

namespace hipgraft::arena {

std::uint32_t History::allocated(Extent block, const dag::Frontier& frontier) {
  Request request;
  request.block = block;
  request.allocated_at = events_++;
  if (requests_.size() < kMaxPacked) {
    if (frontiers_.empty() || !(frontiers_.back() == frontier)) frontiers_.push_back(frontier);
    request.frontier = static_cast<std::uint32_t>(frontiers_.size() - 1);
  }
  requests_.push_back(request);
  return static_cast<std::uint32_t>(requests_.size() - 1);
}

void History::freed(std::uint32_t request, std::uint32_t marks) {
  if (request >= requests_.size()) return;
  requests_[request].marks = marks;
  requests_[request].freed_at = events_++;
}

Plan History::recorded(const std::vector<Extent>& extents) const {
  std::vector<Bytes> offsets;
  Plan plan;
  for (const Extent& extent : extents) {
    offsets.push_back(plan.total);
    plan.total += extent.bytes;
  }
  for (const Request& request : requests_) {
    const auto after = std::upper_bound(
        extents.begin(), extents.end(), request.block.address,
        [](Address address, const Extent& extent) { return address < extent.address; });
    const auto index = static_cast<std::size_t>(after - extents.begin()) - 1;
    const Bytes offset = offsets[index] + request.block.address - extents[index].address;
    plan.blocks.push_back({request.block.bytes, offset});
  }
  return plan;
}

// Packs blocks of known lifetimes: one after another in some order, each at the lowest offset at
// which it overlaps none that may be alive together with it. No order is the best for all captures.
class History::Packing {
 public:
  Packing(const History& history, const ReuseRule& rule, const std::vector<dag::Marks>& marks)
      : requests_(history.requests_), words_((requests_.size() + 63) / 64) {
    together_.resize(requests_.size() * words_, 0);
    for (std::uint32_t later = 0; later < requests_.size(); ++later) {
      const dag::Frontier& frontier = history.frontiers_[requests_[later].frontier];
      for (std::uint32_t earlier = 0; earlier < later; ++earlier) {
        const Request& request = requests_[earlier];
        const bool ordered = request.freed_at < requests_[later].allocated_at &&
                             rule.usable(marks[request.marks], frontier);
        if (!ordered) set_together(earlier, later);
      }
    }
  }

  // A plan of at most `most` bytes, if one is found.
  bool pack(Bytes most, Plan& plan) const {
    const auto bytes = [](const Request& request) {
      return static_cast<double>(request.block.bytes);
    };
    const auto span = [](const Request& request) {
      return static_cast<double>(request.freed_at) - request.allocated_at;
    };
    bool found = try_order(bytes, most, plan);
    found |= try_order([&](const Request& r) { return bytes(r) * span(r); }, most, plan);
    found |= try_order(span, most, plan);
    return found;
  }

 private:
  bool together(std::uint32_t a, std::uint32_t b) const {
    return (together_[a * words_ + b / 64] >> (b % 64) & 1) != 0;
  }
  void set_together(std::uint32_t a, std::uint32_t b) {
    together_[a * words_ + b / 64] |= std::uint64_t{1} << (b % 64);
    together_[b * words_ + a / 64] |= std::uint64_t{1} << (a % 64);
  }

  // Those of the greatest weight first. If the result is no larger than `most`, it becomes the
  // plan, and the next must be smaller.
  template <class Weight>
  bool try_order(Weight weight, Bytes& most, Plan& plan) const {
    std::vector<std::uint32_t> order(requests_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return weight(requests_[a]) > weight(requests_[b]);
    });
    std::vector<Plan::Block> blocks(requests_.size());
    std::vector<std::uint32_t> placed;  // by offset
    Bytes total = 0;
    for (const std::uint32_t request : order) {
      Plan::Block& block = blocks[request];
      block = {requests_[request].block.bytes, lowest_gap(request, placed, blocks)};
      total = std::max(total, block.offset + block.bytes);
      if (total > most) return false;
      placed.insert(std::upper_bound(placed.begin(), placed.end(), block.offset,
                                     [&](Bytes offset, std::uint32_t other) {
                                       return offset < blocks[other].offset;
                                     }),
                    request);
    }
    most = total - 1;
    plan = {std::move(blocks), total};
    return true;
  }

  Bytes lowest_gap(std::uint32_t request, const std::vector<std::uint32_t>& placed,
                   const std::vector<Plan::Block>& blocks) const {
    const Bytes bytes = requests_[request].block.bytes;
    Bytes offset = 0;
    for (const std::uint32_t other : placed) {
      if (!together(request, other)) continue;
      if (blocks[other].offset >= offset + bytes) break;
      offset = std::max(offset, blocks[other].offset + blocks[other].bytes);
    }
    return offset;
  }

  const std::vector<Request>& requests_;
  std::size_t words_;  // of a row
  std::vector<std::uint64_t>
      together_;  // a row a request: those that may be alive together with it
};

Plan History::plan(const ReuseRule& rule, const std::vector<dag::Marks>& marks,
                   const std::vector<Extent>& extents, Bytes peak) const {
  Plan plan = recorded(extents);
  // No packing is smaller than the bytes that were alive at once.
  const Bytes worthwhile = plan.total - plan.total / 16;
  if (requests_.size() <= kMaxPacked && peak <= worthwhile) {
    Packing(*this, rule, marks).pack(worthwhile, plan);
  }
  return plan;
}

}  // namespace hipgraft::arena
