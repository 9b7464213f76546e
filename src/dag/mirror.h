// What is known of the order inside a graph that is being captured: for any two of its nodes,
// does one precede the other?
//
// The nodes are split into chains, in each of which every node precedes the next. A node knows its
// place (chain, index) and, for each other chain, the last index that precedes it: its frontier
// clock. "a precedes or is b" is then one comparison. A node that merely extends its parent's chain
// shares the parent's clock, so memory grows with the joins of the graph and not with its nodes.
//
// Edges that the program adds later to nodes already known only add order; not knowing them is
// safe.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "util/small_vector.h"

namespace hipgraft::dag {

using NodeId = std::uint64_t;  // the runtime's node handle, never dereferenced

struct Place {
  std::uint32_t chain = 0;
  std::uint32_t index = 0;  // 1 is the first of a chain
  bool operator==(const Place&) const = default;
};

// The nodes that all uses of a freed block precede or are: the terminals of the freeing stream.
struct Marks {
  util::SmallVector<Place, 2> places;
  bool never = false;  // order unknown: no node of this capture may count on it
  bool operator==(const Marks&) const = default;
};

// By chain: the last index that precedes. Few captures have more chains than need no heap.
using Clock = util::SmallVector<std::uint32_t, 8>;

// What precedes everything that a stream captures from now on.
class Frontier {
 public:
  Frontier() = default;
  explicit Frontier(Clock clock) : clock_(std::move(clock)) {}

  bool covers(Place place) const {
    return place.chain < clock_.size() && clock_[place.chain] >= place.index;
  }
  bool operator==(const Frontier&) const = default;

 private:
  Clock clock_;
};

// Not thread-safe: whoever shares a mirror locks around it.
class Mirror {
 public:
  // Beyond this many chains nodes have no place: their blocks are not reused in the capture.
  static constexpr std::size_t kMaxChains = 256;

  bool knows(NodeId node) const { return nodes_.contains(node); }
  std::size_t size() const { return nodes_.size(); }

  // Adds a node; its dependencies must be known. Adding a known node again changes nothing.
  void add(NodeId node, std::span<const NodeId> dependencies);

  // The node is gone, and another may get its name. What is known of others through it stays.
  void forget(NodeId node) { nodes_.erase(node); }

  // Both expect known nodes.
  Frontier frontier(std::span<const NodeId> terminals) const;
  Marks marks(std::span<const NodeId> terminals) const;
  // Of all nodes known.
  Marks marks_of_all() const;

 private:
  struct Node {
    Place place;              // index 0: has no place
    std::uint32_t clock = 0;  // into clocks_
  };

  const Node& at(NodeId node) const { return nodes_.find(node)->second; }
  Clock merged_clock(std::span<const NodeId> nodes) const;
  static void raise(Clock& clock, Place place);
  bool ends_chain(Place place) const {
    return place.index != 0 && chain_length_[place.chain] == place.index;
  }
  Place place_behind(const Clock& clock);

  std::unordered_map<NodeId, Node> nodes_;
  std::vector<Clock> clocks_;
  std::vector<std::uint32_t> chain_length_;
  bool all_placed_ = true;
};

// A node met on a walk backwards, with what it depends on.
struct Seen {
  NodeId node = 0;
  std::vector<NodeId> dependencies;
};

// Walks backwards from `terminals` over nodes that `knows(node)` denies and appends each to `out`,
// dependencies first, so that the result can be added to a mirror in order. `dependencies(node,
// list)` fills the list and returns false when the graph cannot be read; the walk then stops and
// returns false. Visits each unknown node once.
template <class Knows, class Dependencies>
bool walk_unknown(std::span<const NodeId> terminals, Knows knows, Dependencies dependencies,
                  std::vector<Seen>& out) {
  struct Open {
    Seen seen;
    std::size_t next = 0;
  };
  std::vector<Open> open;
  std::unordered_map<NodeId, bool> finished;  // false: still open

  const auto enter = [&](NodeId node) {
    if (knows(node) || finished.contains(node)) return true;
    Open entry;
    entry.seen.node = node;
    if (!dependencies(node, entry.seen.dependencies)) return false;
    finished.emplace(node, false);
    open.push_back(std::move(entry));
    return true;
  };

  for (const NodeId terminal : terminals) {
    if (!enter(terminal)) return false;
    while (!open.empty()) {
      Open& top = open.back();
      if (top.next < top.seen.dependencies.size()) {
        const NodeId parent = top.seen.dependencies[top.next++];
        const auto met = finished.find(parent);
        if (met != finished.end() && !met->second) return false;  // a cycle: not a graph
        if (!enter(parent)) return false;
        continue;
      }
      finished[top.seen.node] = true;
      out.push_back(std::move(top.seen));
      open.pop_back();
    }
  }
  return true;
}

}  // namespace hipgraft::dag
