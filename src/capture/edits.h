// Edits by hand of graphs that were captured. Bytes are reused in a graph where it orders the uses,
// so an edit must not take that order away.
#pragma once

#include "capture/state.h"

namespace hipgraft::capture {

// The node is about to be destroyed: what precedes it is made to precede what follows it. Nothing
// happens unless arena memory is used around it.
void keep_order_around(abi::hipGraphNode_t node);

// The node is about to be destroyed, and the runtime may give its handle to the next one.
void forget_node(abi::hipGraphNode_t node);

// The program takes away edges. What that may break cannot be told: says so, once.
void edges_removed(abi::hipGraph_t graph);

}  // namespace hipgraft::capture
