#include "capture/allocation.h"
#include "capture/edits.h"
#include "capture/execs.h"
#include "capture/handles.h"
#include "entry/guard.h"
#include "runtime/last_error.h"

using namespace hipgraft;
using namespace hipgraft::abi;

HIPGRAFT_EXPORT hipError_t hipGraphDestroy(hipGraph_t graph) {
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipGraphDestroy(graph);
  capture::Forgotten forgotten(graph);
  const hipError_t result = capture::destroy_graph(graph);
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
  if (guard.ours() && node != nullptr) {
    runtime::supersede_last_error();
    capture::keep_order_around(node);
    capture::forget_node(node);
  }
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

HIPGRAFT_EXPORT hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t* child) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipGraphChildGraphNodeGetGraph(node, child);
  if (guard.ours() && result == hipSuccess) {
    capture::nested_graph_seen(node, *child);
    capture::inner_graph_seen(*child);
  }
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphRetainUserObject(hipGraph_t graph, hipUserObject_t object,
                                                    unsigned int count, unsigned int flags) {
  HIPGRAFT_GUARD;
  if (guard.ours()) capture::user_objects_seen();
  return guard.real().hipGraphRetainUserObject(graph, object, count, flags);
}
