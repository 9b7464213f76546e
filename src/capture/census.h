// What is in a finished graph.
#pragma once

#include "abi/types.h"
#include "dag/shape.h"
#include "report/model.h"

namespace hipgraft::capture {

struct Census {
  report::NodeCounts nodes;
  dag::Shape shape;
  std::vector<report::NamedCount> kernels;
  report::Graph graph;  // with HIPGRAFT_REPORT_DETAIL
};

// Reads the graph from the runtime; holds no lock. Empty unless a report is asked for. `foreign`:
// nodes that were there before the capture, which do not count as its own.
Census take_census(abi::hipGraph_t graph, const std::vector<std::uint64_t>& foreign);

}  // namespace hipgraft::capture
