// Which graph and which exec keeps which arena memory alive. Counted by handles, not by the
// runtime's user objects: hipGraphExecUpdate makes an exec use the new graph's memory without
// retaining its user objects (hip_graph.cpp of 5.7 to 7.2).
#pragma once

#include "capture/state.h"

namespace hipgraft::capture {

// A capture ended in this graph, which may hold earlier captures. With the lock held.
void graph_captured(Holder&& uses, abi::hipGraph_t graph);

// hipGraphClone, hipGraphInstantiate and its variants: the new handle uses what the old one uses.
void graph_cloned(abi::hipGraph_t from, abi::hipGraph_t to);
void graph_instantiated(abi::hipGraph_t from, abi::hipGraphExec_t to);

// A graph became part of another graph or exec.
void graph_nested(abi::hipGraph_t child, abi::hipGraph_t parent);
void graph_nested(abi::hipGraph_t child, abi::hipGraphExec_t parent);

// hipGraphChildGraphNodeGetGraph: the program has got the handle of a graph inside another one. It
// is good as long as that one is.
void nested_graph_seen(abi::hipGraphNode_t node, abi::hipGraph_t nested);
// The graph around a node that the program changes to hold `child`.
void graph_nested(abi::hipGraph_t child, abi::hipGraphNode_t node);

// hipGraphExecUpdate: on success the exec uses the graph's memory instead of its own. After a
// failure it may use both: the runtime updates node by node.
void exec_updated(abi::hipGraphExec_t exec, abi::hipGraph_t graph, bool succeeded);

// Around hipGraphDestroy and hipGraphExecDestroy. The handle is forgotten first, since the runtime
// may give its address to another thread at once; `restore` undoes that when the call failed.
class Forgotten {
 public:
  explicit Forgotten(abi::hipGraph_t graph);
  explicit Forgotten(abi::hipGraphExec_t exec);
  ~Forgotten();
  Forgotten(const Forgotten&) = delete;
  Forgotten& operator=(const Forgotten&) = delete;

  void restore();

 private:
  std::unordered_map<std::uint64_t, Holder>& table_;
  std::uint64_t handle_;
  std::optional<Holder> holder_;
};

// The graph known to hipgraft, captured or being captured, that has this node; null if none has.
// Asks the runtime: hold no lock.
abi::hipGraph_t graph_around(abi::hipGraphNode_t node);

}  // namespace hipgraft::capture
