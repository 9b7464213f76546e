#include "dag/shape.h"

#include <algorithm>
#include <vector>

namespace hipgraft::dag {

Shape measure(std::uint32_t nodes, std::span<const Edge> edges) {
  // Successors in one array, those of node n from first[n] on.
  std::vector<std::uint32_t> first(nodes + 1, 0);
  std::vector<std::uint32_t> waiting(nodes, 0);
  Shape shape;
  for (const auto& [from, to] : edges) {
    if (from >= nodes || to >= nodes) continue;
    ++first[from + 1];
    ++waiting[to];
    ++shape.edges;
  }
  for (std::uint32_t n = 0; n < nodes; ++n) first[n + 1] += first[n];
  std::vector<std::uint32_t> successors(shape.edges);
  std::vector<std::uint32_t> fill(first.begin(), first.end() - 1);
  for (const auto& [from, to] : edges) {
    if (from < nodes && to < nodes) successors[fill[from]++] = to;
  }

  std::vector<std::uint32_t> level(nodes, 0);
  std::vector<std::uint32_t> ready;
  for (std::uint32_t n = 0; n < nodes; ++n) {
    if (waiting[n] == 0) ready.push_back(n);
  }
  std::vector<std::uint64_t> population;
  while (!ready.empty()) {
    const std::uint32_t node = ready.back();
    ready.pop_back();
    if (population.size() <= level[node]) population.resize(level[node] + 1, 0);
    ++population[level[node]];
    for (std::uint32_t i = first[node]; i < first[node + 1]; ++i) {
      const std::uint32_t next = successors[i];
      level[next] = std::max(level[next], level[node] + 1);
      if (--waiting[next] == 0) ready.push_back(next);
    }
  }
  shape.critical_path = population.size();
  for (const std::uint64_t count : population) shape.width = std::max(shape.width, count);
  return shape;
}

}  // namespace hipgraft::dag
