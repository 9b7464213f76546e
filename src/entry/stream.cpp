#include "capture/allocation.h"
#include "capture/ordering.h"
#include "capture/session.h"
#include "entry/guard.h"
#include "runtime/last_error.h"

using namespace hipgraft;
using namespace hipgraft::abi;

namespace {

hipError_t begin(capture::Call call, hipStream_t stream, hipStreamCaptureMode mode) {
  runtime::supersede_last_error();
  return capture::begin_capture(call, stream, mode, [&](hipStreamCaptureMode relaxed) {
    return runtime::real().hipStreamBeginCapture(stream, relaxed);
  });
}

hipError_t end(capture::Call call, hipStream_t stream, hipGraph_t* graph) {
  runtime::supersede_last_error();
  const hipError_t result = capture::end_capture(call, stream, graph);
  entry::report_progress();
  return result;
}

hipError_t wait(hipStream_t stream, hipEvent_t event, unsigned int flags) {
  runtime::supersede_last_error();
  return capture::wait_event(
      stream, [&] { return runtime::real().hipStreamWaitEvent(stream, event, flags); });
}

}  // namespace

HIPGRAFT_EXPORT hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipStreamBeginCapture(stream, mode);
  return begin(HIPGRAFT_THIS_CALL(hipStreamBeginCapture), stream, mode);
}

HIPGRAFT_EXPORT hipError_t hipStreamBeginCapture_spt(hipStream_t stream,
                                                     hipStreamCaptureMode mode) {
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipStreamBeginCapture_spt(stream, mode);
  return begin(HIPGRAFT_THIS_CALL(hipStreamBeginCapture_spt), capture::spt(stream), mode);
}

HIPGRAFT_EXPORT hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph,
                                                        const hipGraphNode_t* dependencies,
                                                        const hipGraphEdgeData* dependencyData,
                                                        size_t numDependencies,
                                                        hipStreamCaptureMode mode) {
  HIPGRAFT_GUARD;
  const auto begin_to_graph = [&](hipStreamCaptureMode asked) {
    return guard.real().hipStreamBeginCaptureToGraph(stream, graph, dependencies, dependencyData,
                                                     numDependencies, asked);
  };
  if (!guard.ours()) return begin_to_graph(mode);
  runtime::supersede_last_error();
  return capture::begin_capture(HIPGRAFT_THIS_CALL(hipStreamBeginCaptureToGraph), stream, mode,
                                begin_to_graph);
}

HIPGRAFT_EXPORT hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipStreamEndCapture(stream, graph);
  return end(HIPGRAFT_THIS_CALL(hipStreamEndCapture), stream, graph);
}

HIPGRAFT_EXPORT hipError_t hipStreamEndCapture_spt(hipStream_t stream, hipGraph_t* graph) {
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipStreamEndCapture_spt(stream, graph);
  return end(HIPGRAFT_THIS_CALL(hipStreamEndCapture_spt), capture::spt(stream), graph);
}

HIPGRAFT_EXPORT hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event,
                                              unsigned int flags) {
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipStreamWaitEvent(stream, event, flags);
  return wait(stream, event, flags);
}

HIPGRAFT_EXPORT hipError_t hipStreamWaitEvent_spt(hipStream_t stream, hipEvent_t event,
                                                  unsigned int flags) {
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipStreamWaitEvent_spt(stream, event, flags);
  return wait(capture::spt(stream), event, flags);
}

HIPGRAFT_EXPORT hipError_t hipStreamDestroy(hipStream_t stream) {
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipStreamDestroy(stream);
  runtime::supersede_last_error();
  capture::Leaving leaving(stream);
  const hipError_t result = guard.real().hipStreamDestroy(stream);
  if (result == hipSuccess) {
    leaving.left();
  } else {
    leaving.stay();
  }
  return result;
}

HIPGRAFT_EXPORT hipError_t hipDeviceSynchronize(void) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipDeviceSynchronize();
  if (guard.ours() && result == hipSuccess) capture::trim(capture::Trim::waited);
  return result;
}
