#include "capture/execs.h"

#include "capture/handles.h"
#include "capture/launch.h"
#include "entry/guard.h"

using namespace hipgraft;
using namespace hipgraft::abi;

namespace {

void instantiated(hipGraphExec_t exec, hipGraph_t graph, unsigned long long flags) {
  capture::graph_instantiated(graph, exec);
  capture::exec_made(exec, graph, flags);
}

}  // namespace

HIPGRAFT_EXPORT hipError_t hipGraphInstantiate(hipGraphExec_t* exec, hipGraph_t graph,
                                               hipGraphNode_t* errorNode, char* log,
                                               size_t logSize) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipGraphInstantiate(exec, graph, errorNode, log, logSize);
  if (guard.ours() && result == hipSuccess) instantiated(*exec, graph, 0);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* exec, hipGraph_t graph,
                                                        unsigned long long flags) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipGraphInstantiateWithFlags(exec, graph, flags);
  if (guard.ours() && result == hipSuccess) instantiated(*exec, graph, flags);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphInstantiateWithParams(hipGraphExec_t* exec, hipGraph_t graph,
                                                         hipGraphInstantiateParams* params) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipGraphInstantiateWithParams(exec, graph, params);
  if (guard.ours() && result == hipSuccess) instantiated(*exec, graph, params->flags);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphExecUpdate(hipGraphExec_t exec, hipGraph_t graph,
                                              hipGraphNode_t* errorNode,
                                              hipGraphExecUpdateResult* updated) {
  HIPGRAFT_GUARD;
  const hipError_t result =
      guard.real().hipGraphExecUpdate(capture::behind(exec), graph, errorNode, updated);
  if (!guard.ours()) return result;
  capture::exec_updated(exec, graph, result == hipSuccess);
  if (result == hipSuccess) capture::exec_worn(exec, graph);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphExecDestroy(hipGraphExec_t exec) {
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipGraphExecDestroy(exec);
  capture::Forgotten forgotten(exec);
  const hipError_t result = capture::destroy_exec(exec);
  if (result != hipSuccess) forgotten.restore();
  return result;
}

HIPGRAFT_EXPORT [[gnu::hot]] hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  if (const capture::Answer launched = capture::launch_again(exec, stream)) return *launched;
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipGraphLaunch(capture::behind(exec), stream);
  return capture::launch(exec, stream);
}

HIPGRAFT_EXPORT hipError_t hipGraphLaunch_spt(hipGraphExec_t exec, hipStream_t stream) {
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipGraphLaunch_spt(capture::behind(exec), stream);
  return capture::launch(exec, capture::spt(stream));
}

HIPGRAFT_EXPORT hipError_t hipGraphExecNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                     hipGraphNodeParams* params) {
  HIPGRAFT_GUARD;
  const hipError_t result =
      guard.real().hipGraphExecNodeSetParams(capture::behind(exec), node, params);
  if (guard.ours() && result == hipSuccess && params->type == hipGraphNodeTypeGraph) {
    capture::graph_nested(params->child_graph, exec);
  }
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGraphExecChildGraphNodeSetParams(hipGraphExec_t exec,
                                                               hipGraphNode_t node,
                                                               hipGraph_t child) {
  HIPGRAFT_GUARD;
  const hipError_t result =
      guard.real().hipGraphExecChildGraphNodeSetParams(capture::behind(exec), node, child);
  if (guard.ours()) capture::graph_nested(child, exec);
  return result;
}

// Enabled or not stays as it is in updates.
HIPGRAFT_EXPORT hipError_t hipGraphNodeSetEnabled(hipGraphExec_t exec, hipGraphNode_t node,
                                                  unsigned int enabled) {
  HIPGRAFT_GUARD;
  if (guard.ours()) capture::keep_exec(exec);
  return guard.real().hipGraphNodeSetEnabled(capture::behind(exec), node, enabled);
}

// Calls that only need to reach the exec that is used.
#define HIPGRAFT_PASS_ON(name, parameters, ...)                   \
  HIPGRAFT_EXPORT hipError_t name parameters {                    \
    HIPGRAFT_GUARD;                                               \
    return guard.real().name(capture::behind(exec), __VA_ARGS__); \
  }

HIPGRAFT_PASS_ON(hipGraphNodeGetEnabled,
                 (hipGraphExec_t exec, hipGraphNode_t node, unsigned int* enabled), node, enabled)
HIPGRAFT_PASS_ON(hipGraphExecKernelNodeSetParams,
                 (hipGraphExec_t exec, hipGraphNode_t node, const hipKernelNodeParams* params),
                 node, params)
HIPGRAFT_PASS_ON(hipGraphExecMemcpyNodeSetParams,
                 (hipGraphExec_t exec, hipGraphNode_t node, hipMemcpy3DParms* params), node, params)
HIPGRAFT_PASS_ON(hipGraphExecMemcpyNodeSetParams1D,
                 (hipGraphExec_t exec, hipGraphNode_t node, void* dst, const void* src,
                  size_t count, hipMemcpyKind kind),
                 node, dst, src, count, kind)
HIPGRAFT_PASS_ON(hipGraphExecMemcpyNodeSetParamsFromSymbol,
                 (hipGraphExec_t exec, hipGraphNode_t node, void* dst, const void* symbol,
                  size_t count, size_t offset, hipMemcpyKind kind),
                 node, dst, symbol, count, offset, kind)
HIPGRAFT_PASS_ON(hipGraphExecMemcpyNodeSetParamsToSymbol,
                 (hipGraphExec_t exec, hipGraphNode_t node, const void* symbol, const void* src,
                  size_t count, size_t offset, hipMemcpyKind kind),
                 node, symbol, src, count, offset, kind)
HIPGRAFT_PASS_ON(hipGraphExecMemsetNodeSetParams,
                 (hipGraphExec_t exec, hipGraphNode_t node, const hipMemsetParams* params), node,
                 params)
HIPGRAFT_PASS_ON(hipGraphExecHostNodeSetParams,
                 (hipGraphExec_t exec, hipGraphNode_t node, const hipHostNodeParams* params), node,
                 params)
HIPGRAFT_PASS_ON(hipGraphExecEventRecordNodeSetEvent,
                 (hipGraphExec_t exec, hipGraphNode_t node, hipEvent_t event), node, event)
HIPGRAFT_PASS_ON(hipGraphExecEventWaitNodeSetEvent,
                 (hipGraphExec_t exec, hipGraphNode_t node, hipEvent_t event), node, event)
HIPGRAFT_PASS_ON(hipGraphExecExternalSemaphoresSignalNodeSetParams,
                 (hipGraphExec_t exec, hipGraphNode_t node,
                  const hipExternalSemaphoreSignalNodeParams* params),
                 node, params)
HIPGRAFT_PASS_ON(hipGraphExecExternalSemaphoresWaitNodeSetParams,
                 (hipGraphExec_t exec, hipGraphNode_t node,
                  const hipExternalSemaphoreWaitNodeParams* params),
                 node, params)
HIPGRAFT_PASS_ON(hipGraphExecBatchMemOpNodeSetParams,
                 (hipGraphExec_t exec, hipGraphNode_t node, const hipBatchMemOpNodeParams* params),
                 node, params)
HIPGRAFT_PASS_ON(hipDrvGraphExecMemcpyNodeSetParams,
                 (hipGraphExec_t exec, hipGraphNode_t node, const HIP_MEMCPY3D* params,
                  hipCtx_t context),
                 node, params, context)
HIPGRAFT_PASS_ON(hipDrvGraphExecMemsetNodeSetParams,
                 (hipGraphExec_t exec, hipGraphNode_t node, const hipDrvMemsetParams* params,
                  hipCtx_t context),
                 node, params, context)
