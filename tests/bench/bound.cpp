#include "bound.h"

#include <algorithm>
#include <limits>

#include "arena/reuse_rule.h"

namespace hipgraft::bench {
namespace {

// Dinic's maximum flow.
class Flow {
 public:
  explicit Flow(std::size_t nodes) : from_(nodes) {}

  void add(std::size_t from, std::size_t to, std::uint64_t capacity) {
    from_[from].push_back(edges_.size());
    edges_.push_back({to, capacity});
    from_[to].push_back(edges_.size());
    edges_.push_back({from, 0});
  }

  std::uint64_t maximum(std::size_t source, std::size_t sink) {
    std::uint64_t flow = 0;
    while (layer(source, sink)) {
      next_.assign(from_.size(), 0);
      while (const std::uint64_t pushed = push(source, sink, kUnlimited)) flow += pushed;
    }
    return flow;
  }

  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

 private:
  struct Edge {
    std::size_t to;
    std::uint64_t left;
  };

  bool layer(std::size_t source, std::size_t sink) {
    depth_.assign(from_.size(), 0);
    depth_[source] = 1;
    std::vector<std::size_t> queue{source};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (const std::size_t e : from_[queue[i]]) {
        if (edges_[e].left == 0 || depth_[edges_[e].to] != 0) continue;
        depth_[edges_[e].to] = depth_[queue[i]] + 1;
        queue.push_back(edges_[e].to);
      }
    }
    return depth_[sink] != 0;
  }

  std::uint64_t push(std::size_t node, std::size_t sink, std::uint64_t most) {
    if (node == sink) return most;
    for (; next_[node] < from_[node].size(); ++next_[node]) {
      const std::size_t e = from_[node][next_[node]];
      if (edges_[e].left == 0 || depth_[edges_[e].to] != depth_[node] + 1) continue;
      const std::uint64_t pushed = push(edges_[e].to, sink, std::min(most, edges_[e].left));
      if (pushed == 0) continue;
      if (edges_[e].left != kUnlimited) edges_[e].left -= pushed;
      if (edges_[e ^ 1].left != kUnlimited) edges_[e ^ 1].left += pushed;
      return pushed;
    }
    return 0;
  }

  std::vector<Edge> edges_;
  std::vector<std::vector<std::size_t>> from_;
  std::vector<std::size_t> depth_;
  std::vector<std::size_t> next_;
};

}  // namespace

// By Dilworth's theorem with weights: the weight of all blocks less the most of it that can be
// passed on from blocks to later ones.
arena::Bytes lower_bound(const std::vector<Call>& calls) {
  const arena::OrderedReuse rule;
  struct Freed {
    std::size_t block;
    const dag::Marks* marks;
  };
  std::vector<Freed> freed;
  std::vector<arena::Bytes> bytes;
  for (const Call& call : calls) {
    if (!call.frees) bytes.push_back(arena::round_up(call.bytes, arena::kAlignment));
  }
  const std::size_t blocks = bytes.size();
  Flow flow(2 * blocks + 2);
  arena::Bytes total = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    flow.add(2 * blocks, b, bytes[b]);
    flow.add(blocks + b, 2 * blocks + 1, bytes[b]);
    total += bytes[b];
  }
  for (const Call& call : calls) {
    if (call.frees) {
      freed.push_back({call.block, &call.marks});
      continue;
    }
    for (const Freed& earlier : freed) {
      if (!rule.usable(*earlier.marks, call.frontier)) continue;
      flow.add(earlier.block, blocks + call.block, Flow::kUnlimited);
    }
  }
  return total - flow.maximum(2 * blocks, 2 * blocks + 1);
}

}  // namespace hipgraft::bench
