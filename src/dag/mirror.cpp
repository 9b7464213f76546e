#include "dag/mirror.h"

#include <algorithm>

namespace hipgraft::dag {

void Mirror::raise(Clock& clock, Place place) {
  if (place.index == 0) return;
  clock.grow_to(place.chain + 1);
  clock[place.chain] = std::max(clock[place.chain], place.index);
}

Clock Mirror::merged_clock(std::span<const NodeId> nodes) const {
  Clock merged;
  for (const NodeId id : nodes) {
    const Node& node = at(id);
    const Clock& clock = clocks_[node.clock];
    merged.grow_to(clock.size());
    for (std::size_t chain = 0; chain < clock.size(); ++chain) {
      merged[chain] = std::max(merged[chain], clock[chain]);
    }
    raise(merged, node.place);
  }
  return merged;
}

// A chain may be extended by any node that its last node precedes, a child or not: side streams
// that come and go then share a few chains.
Place Mirror::place_behind(const Clock& clock) {
  for (std::uint32_t chain = 0; chain < clock.size(); ++chain) {
    if (clock[chain] == chain_length_[chain]) return {chain, ++chain_length_[chain]};
  }
  if (chain_length_.size() == kMaxChains) {
    all_placed_ = false;
    return {};
  }
  chain_length_.push_back(1);
  return {static_cast<std::uint32_t>(chain_length_.size() - 1), 1};
}

void Mirror::add(NodeId node, std::span<const NodeId> dependencies) {
  if (knows(node)) return;
  if (dependencies.size() == 1) {
    const Node parent = at(dependencies[0]);
    if (ends_chain(parent.place)) {
      const Place place{parent.place.chain, ++chain_length_[parent.place.chain]};
      nodes_.emplace(node, Node{place, parent.clock});
      return;
    }
  }
  Clock clock = merged_clock(dependencies);
  const Place place = place_behind(clock);
  nodes_.emplace(node, Node{place, static_cast<std::uint32_t>(clocks_.size())});
  clocks_.push_back(std::move(clock));
}

Frontier Mirror::frontier(std::span<const NodeId> terminals) const {
  return Frontier(merged_clock(terminals));
}

Marks Mirror::marks(std::span<const NodeId> terminals) const {
  Marks marks;
  for (const NodeId id : terminals) {
    const Place place = at(id).place;
    if (place.index == 0) marks.never = true;
    marks.places.push_back(place);
  }
  return marks;
}

Marks Mirror::marks_of_all() const {
  Marks marks;
  marks.never = !all_placed_;
  for (std::uint32_t chain = 0; chain < chain_length_.size(); ++chain) {
    marks.places.push_back({chain, chain_length_[chain]});
  }
  return marks;
}

}  // namespace hipgraft::dag
