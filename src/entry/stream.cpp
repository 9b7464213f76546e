#include "capture/allocation.h"
#include "capture/ordering.h"
#include "capture/session.h"
#include "entry/guard.h"

using namespace hipgraft;
using namespace hipgraft::abi;
using runtime::real;

namespace {

hipError_t begin(capture::Call call, hipStream_t stream, hipStreamCaptureMode mode) {
  return capture::begin_capture(call, stream, mode, [&](hipStreamCaptureMode relaxed) {
    return real().hipStreamBeginCapture(stream, relaxed);
  });
}

hipError_t end(capture::Call call, hipStream_t stream, hipGraph_t* graph) {
  const hipError_t result = capture::end_capture(call, stream, graph);
  entry::report_progress();
  return result;
}

hipError_t wait(hipStream_t stream, hipEvent_t event, unsigned int flags) {
  return capture::wait_event(stream,
                             [&] { return real().hipStreamWaitEvent(stream, event, flags); });
}

}  // namespace

HIPGRAFT_EXPORT hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  const entry::Guard guard;
  if (!guard.ours()) return real().hipStreamBeginCapture(stream, mode);
  return begin(HIPGRAFT_THIS_CALL(hipStreamBeginCapture), stream, mode);
}

HIPGRAFT_EXPORT hipError_t hipStreamBeginCapture_spt(hipStream_t stream,
                                                     hipStreamCaptureMode mode) {
  const entry::Guard guard;
  if (!guard.ours()) return real().hipStreamBeginCapture_spt(stream, mode);
  return begin(HIPGRAFT_THIS_CALL(hipStreamBeginCapture_spt), capture::spt(stream), mode);
}

HIPGRAFT_EXPORT hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph,
                                                        const hipGraphNode_t* dependencies,
                                                        const hipGraphEdgeData* dependencyData,
                                                        size_t numDependencies,
                                                        hipStreamCaptureMode mode) {
  const entry::Guard guard;
  const auto begin_to_graph = [&](hipStreamCaptureMode asked) {
    return real().hipStreamBeginCaptureToGraph(stream, graph, dependencies, dependencyData,
                                               numDependencies, asked);
  };
  if (!guard.ours()) return begin_to_graph(mode);
  return capture::begin_capture(HIPGRAFT_THIS_CALL(hipStreamBeginCaptureToGraph), stream, mode,
                                begin_to_graph);
}

HIPGRAFT_EXPORT hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
  const entry::Guard guard;
  if (!guard.ours()) return real().hipStreamEndCapture(stream, graph);
  return end(HIPGRAFT_THIS_CALL(hipStreamEndCapture), stream, graph);
}

HIPGRAFT_EXPORT hipError_t hipStreamEndCapture_spt(hipStream_t stream, hipGraph_t* graph) {
  const entry::Guard guard;
  if (!guard.ours()) return real().hipStreamEndCapture_spt(stream, graph);
  return end(HIPGRAFT_THIS_CALL(hipStreamEndCapture_spt), capture::spt(stream), graph);
}

HIPGRAFT_EXPORT hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event,
                                              unsigned int flags) {
  const entry::Guard guard;
  if (!guard.ours()) return real().hipStreamWaitEvent(stream, event, flags);
  return wait(stream, event, flags);
}

HIPGRAFT_EXPORT hipError_t hipStreamWaitEvent_spt(hipStream_t stream, hipEvent_t event,
                                                  unsigned int flags) {
  const entry::Guard guard;
  if (!guard.ours()) return real().hipStreamWaitEvent_spt(stream, event, flags);
  return wait(capture::spt(stream), event, flags);
}

HIPGRAFT_EXPORT hipError_t hipStreamDestroy(hipStream_t stream) {
  const entry::Guard guard;
  if (!guard.ours()) return real().hipStreamDestroy(stream);
  const capture::StreamKey key = capture::key_of(stream);
  capture::seal(stream);
  const hipError_t result = real().hipStreamDestroy(stream);
  if (result != hipSuccess) return result;
  capture::stream_destroyed(key);
  capture::abandon_capture_of(key);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipDeviceSynchronize(void) {
  const entry::Guard guard;
  const hipError_t result = real().hipDeviceSynchronize();
  if (guard.ours() && result == hipSuccess) capture::trim();
  return result;
}
