// Runs what a graph holds, node by node, in random orders that its edges allow.
//
// A runtime puts a graph on a few in-order queues, which hides most missing edges. Here only the
// edges count: if one is missing, some seed runs its two nodes the other way round, and the result
// is wrong.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace graph_order {

using Edge = std::pair<std::size_t, std::size_t>;  // from, to

// A random order of 0 ... count - 1 in which no edge points back. Half of the seeds pick evenly
// among what is ready; the others tend to follow one path to its end, so that distant nodes change
// places too. Throws std::runtime_error if the edges form a cycle.
std::vector<std::size_t> random_order(std::size_t count, const std::vector<Edge>& edges,
                                      std::uint32_t seed);

// Issues the graph's nodes and those of its child graphs one by one on `stream`, and does not wait
// for them. The graph is only read. Throws std::runtime_error, before anything is issued, if the
// graph has nodes that cannot be run alone: memory nodes, and before HIP 7 copies, since
// hipGraphMemcpyNodeGetParams does not know the parameters of captured copies there. The depth of
// a three-dimensional memset cannot be read: such a node sets its first slice.
void run_in_random_order(hipGraph_t graph, std::uint32_t seed, hipStream_t stream);

}  // namespace graph_order
