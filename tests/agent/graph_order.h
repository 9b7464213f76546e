// Runs what a graph holds, node by node, in random orders that its edges allow.
//
// A runtime puts a graph on a few in-order queues, which hides most missing edges. Here only the
// edges count: if one is missing, some seed runs its two nodes the other way round, and the result
// is wrong.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace graph_order {

using Edge = std::pair<std::size_t, std::size_t>;  // from, to

// A random order of 0 ... count - 1 in which no edge points back. Half of the seeds pick evenly
// among what is ready; the others tend to follow one path to its end, so that distant nodes change
// places too. Throws std::runtime_error if the edges form a cycle.
std::vector<std::size_t> random_order(std::size_t count, const std::vector<Edge>& edges,
                                      std::uint32_t seed);

// What a graph holds, child graphs unfolded: a step for each node, and two for each child graph,
// around its own. Reads the graph, whose nodes must live as long as the plan is used.
//
// The constructor throws std::runtime_error if the graph has nodes that cannot be run alone: memory
// nodes, and before HIP 7 copies, since hipGraphMemcpyNodeGetParams does not know the parameters of
// captured copies there. The depth of a three-dimensional memset cannot be read: such a node sets
// its first slice.
class Plan {
 public:
  explicit Plan(hipGraph_t graph);
  Plan(Plan&&) = default;
  Plan& operator=(Plan&&) = default;

  // The node of each step; null for the steps around a graph.
  const std::vector<hipGraphNode_t>& nodes() const { return nodes_; }
  const std::vector<Edge>& edges() const { return edges_; }

  // Issues all steps one by one in a random order on `stream`, and does not wait for them.
  void run(std::uint32_t seed, hipStream_t stream) const;

 private:
  // The first and the last step of a node: one step, except for child graphs.
  struct Span {
    std::size_t first;
    std::size_t last;
  };
  using Issue = std::function<void(hipStream_t)>;

  std::size_t add(hipGraphNode_t node, Issue issue);
  Span add_node(hipGraphNode_t node);
  Span add_graph(hipGraph_t graph);

  std::vector<Issue> issues_;
  std::vector<hipGraphNode_t> nodes_;
  std::vector<Edge> edges_;
};

// Plan(graph).run(seed, stream).
void run_in_random_order(hipGraph_t graph, std::uint32_t seed, hipStream_t stream);

}  // namespace graph_order
