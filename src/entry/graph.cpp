#include "capture/allocation.h"
#include "capture/edits.h"
#include "capture/handles.h"
#include "capture/launch.h"
#include "entry/guard.h"

using namespace hipgraft;
using namespace hipgraft::abi;

HIPGRAFT_EXPORT hipError_t hipGraphDestroy(hipGraph_t graph) {
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipGraphDestroy(graph);
  capture::Forgotten forgotten(graph);
  const hipError_t result = guard.real().hipGraphDestroy(graph);
  if (result != hipSuccess) forgotten.restore();
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphExecDestroy(hipGraphExec_t exec) {
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipGraphExecDestroy(exec);
  capture::Forgotten forgotten(exec);
  const hipError_t result = guard.real().hipGraphExecDestroy(exec);
  if (result != hipSuccess) forgotten.restore();
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphClone(hipGraph_t* clone, hipGraph_t original) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipGraphClone(clone, original);
  if (guard.ours() && result == hipSuccess) capture::graph_cloned(original, *clone);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphAddChildGraphNode(hipGraphNode_t* node, hipGraph_t graph,
                                                     const hipGraphNode_t* dependencies,
                                                     size_t numDependencies, hipGraph_t child) {
  HIPGRAFT_GUARD;
  const hipError_t result =
      guard.real().hipGraphAddChildGraphNode(node, graph, dependencies, numDependencies, child);
  if (guard.ours() && result == hipSuccess) capture::graph_nested(child, graph);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphAddNode(hipGraphNode_t* node, hipGraph_t graph,
                                           const hipGraphNode_t* dependencies,
                                           size_t numDependencies, hipGraphNodeParams* params) {
  HIPGRAFT_GUARD;
  if (guard.ours() && params != nullptr && params->type == hipGraphNodeTypeMemFree) {
    const capture::Answer freed =
        capture::free_by_node(node, graph, dependencies, numDependencies, params->freed);
    if (freed) return *freed;
  }
  const hipError_t result =
      guard.real().hipGraphAddNode(node, graph, dependencies, numDependencies, params);
  if (guard.ours() && result == hipSuccess && params->type == hipGraphNodeTypeGraph) {
    capture::graph_nested(params->child_graph, graph);
  }
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphAddMemFreeNode(hipGraphNode_t* node, hipGraph_t graph,
                                                  const hipGraphNode_t* dependencies,
                                                  size_t numDependencies, void* ptr) {
  HIPGRAFT_GUARD;
  capture::Answer freed;
  if (guard.ours()) freed = capture::free_by_node(node, graph, dependencies, numDependencies, ptr);
  if (freed) return *freed;
  return guard.real().hipGraphAddMemFreeNode(node, graph, dependencies, numDependencies, ptr);
}

HIPGRAFT_EXPORT hipError_t hipDrvGraphAddMemFreeNode(hipGraphNode_t* node, hipGraph_t graph,
                                                     const hipGraphNode_t* dependencies,
                                                     size_t numDependencies, hipDeviceptr_t ptr) {
  HIPGRAFT_GUARD;
  capture::Answer freed;
  if (guard.ours()) freed = capture::free_by_node(node, graph, dependencies, numDependencies, ptr);
  if (freed) return *freed;
  return guard.real().hipDrvGraphAddMemFreeNode(node, graph, dependencies, numDependencies, ptr);
}

HIPGRAFT_EXPORT hipError_t hipGraphDestroyNode(hipGraphNode_t node) {
  HIPGRAFT_GUARD;
  if (guard.ours() && node != nullptr) capture::keep_order_around(node);
  return guard.real().hipGraphDestroyNode(node);
}

HIPGRAFT_EXPORT hipError_t hipGraphRemoveDependencies(hipGraph_t graph, const hipGraphNode_t* from,
                                                      const hipGraphNode_t* to,
                                                      size_t numDependencies) {
  HIPGRAFT_GUARD;
  const hipError_t result =
      guard.real().hipGraphRemoveDependencies(graph, from, to, numDependencies);
  if (guard.ours() && result == hipSuccess) capture::edges_removed(graph);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphNodeSetParams(hipGraphNode_t node, hipGraphNodeParams* params) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipGraphNodeSetParams(node, params);
  if (guard.ours() && result == hipSuccess && params->type == hipGraphNodeTypeGraph) {
    capture::graph_nested(params->child_graph, node);
  }
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphExecNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                     hipGraphNodeParams* params) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipGraphExecNodeSetParams(exec, node, params);
  if (guard.ours() && result == hipSuccess && params->type == hipGraphNodeTypeGraph) {
    capture::graph_nested(params->child_graph, exec);
  }
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t* child) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipGraphChildGraphNodeGetGraph(node, child);
  if (guard.ours() && result == hipSuccess) capture::nested_graph_seen(node, *child);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphInstantiate(hipGraphExec_t* exec, hipGraph_t graph,
                                               hipGraphNode_t* errorNode, char* log,
                                               size_t logSize) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipGraphInstantiate(exec, graph, errorNode, log, logSize);
  if (guard.ours() && result == hipSuccess) capture::graph_instantiated(graph, *exec);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* exec, hipGraph_t graph,
                                                        unsigned long long flags) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipGraphInstantiateWithFlags(exec, graph, flags);
  if (guard.ours() && result == hipSuccess) capture::graph_instantiated(graph, *exec);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphInstantiateWithParams(hipGraphExec_t* exec, hipGraph_t graph,
                                                         hipGraphInstantiateParams* params) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipGraphInstantiateWithParams(exec, graph, params);
  if (guard.ours() && result == hipSuccess) capture::graph_instantiated(graph, *exec);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphExecUpdate(hipGraphExec_t exec, hipGraph_t graph,
                                              hipGraphNode_t* errorNode,
                                              hipGraphExecUpdateResult* updated) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipGraphExecUpdate(exec, graph, errorNode, updated);
  if (guard.ours()) capture::exec_updated(exec, graph, result == hipSuccess);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphExecChildGraphNodeSetParams(hipGraphExec_t exec,
                                                               hipGraphNode_t node,
                                                               hipGraph_t child) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipGraphExecChildGraphNodeSetParams(exec, node, child);
  if (guard.ours()) capture::graph_nested(child, exec);
  return result;
}

HIPGRAFT_EXPORT [[gnu::hot]] hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  if (const capture::Answer launched = capture::launch_again(exec, stream)) return *launched;
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipGraphLaunch(exec, stream);
  return capture::launch(exec, stream);
}

HIPGRAFT_EXPORT hipError_t hipGraphLaunch_spt(hipGraphExec_t exec, hipStream_t stream) {
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipGraphLaunch_spt(exec, stream);
  return capture::launch(exec, capture::spt(stream));
}
