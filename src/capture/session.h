// A capture from begin to end.
#pragma once

#include <optional>
#include <string>

#include "capture/allocation.h"
#include "capture/ordering.h"
#include "capture/state.h"

namespace hipgraft::capture {

// Where a stream stands in a capture that hipgraft saw begin.
struct Position {
  SessionRef session;
  std::vector<dag::NodeId> terminals;
  bool known = false;  // the mirror knows all that precedes the terminals
};

// Asks the runtime, so that nodes added by libraries, by hand or on streams that joined count.
// Brings the session's mirror up to date. Nothing when the stream is in no such capture.
std::optional<Position> position(abi::hipStream_t stream);

// hipStreamBeginCapture and hipStreamBeginCaptureToGraph. `begin(mode)` makes the real call; it is
// asked for Relaxed whatever the program wants: a Relaxed capture is in none of the runtime's lists
// that let unrelated calls kill it.
template <class Begin>
abi::hipError_t begin_capture(Call call, abi::hipStream_t stream, abi::hipStreamCaptureMode mode,
                              Begin begin);

// hipStreamEndCapture. Reaches the runtime at most once a capture: a second time crashes 6.4
// and 7.2.
abi::hipError_t end_capture(Call call, abi::hipStream_t stream, abi::hipGraph_t* graph);

// hipStreamWaitEvent, which may pull the stream into a capture. `wait()` makes the real call.
template <class Wait>
abi::hipError_t wait_event(abi::hipStream_t stream, Wait wait);

// What precedes a free in the stream's capture, or a free by the host: all that was captured so
// far.
dag::Marks marks_of(const Position& at);
dag::Marks marks_of_all(const SessionRef& session);
// What precedes a node of the session's graph, and the node.
dag::Marks marks_of(const SessionRef& session, abi::hipGraphNode_t node);
// The capture that makes this graph; null if none does.
SessionRef session_into(abi::hipGraph_t graph);

// Whether the stream is in a capture that was killed and has not been ended.
bool invalidated(abi::hipStream_t stream);

// Around hipStreamDestroy. What the stream means to captures is taken away first, since the runtime
// may give its handle to another thread at once; a capture that it began will never end.
class Leaving {
 public:
  explicit Leaving(abi::hipStream_t stream);
  // The call failed: the stream is still there.
  void stay();
  // The call succeeded.
  void left();

 private:
  SessionRef begun_;
};

// The runtime has destroyed all streams of the device, and with them the captures begun there;
// their memory was forgotten before.
void forget_captures(int device);

// Only the first is kept. Not with the lock held.
void note_first_cause(Session& session, Call call, abi::hipError_t error, std::string detail);

namespace detail {
// Around the call that begins a capture.
void beginning();
void not_begun();
void began(Call call, abi::hipStream_t stream, abi::hipStreamCaptureMode asked);
bool may_join(abi::hipStream_t stream);
void may_have_joined(abi::hipStream_t stream);
}  // namespace detail

template <class Begin>
abi::hipError_t begin_capture(Call call, abi::hipStream_t stream, abi::hipStreamCaptureMode mode,
                              Begin begin) {
  if (mode < abi::hipStreamCaptureModeGlobal || mode > abi::hipStreamCaptureModeRelaxed) {
    return begin(mode);
  }
  seal_for_capture(stream);
  reserve(call, stream);
  detail::beginning();
  const abi::hipError_t result = begin(abi::hipStreamCaptureModeRelaxed);
  if (result == abi::hipSuccess) {
    detail::began(call, stream, mode);
  } else {
    detail::not_begun();
  }
  return result;
}

template <class Wait>
abi::hipError_t wait_event(abi::hipStream_t stream, Wait wait) {
  if (!detail::may_join(stream)) return wait();
  seal_for_capture(stream);
  const abi::hipError_t result = wait();
  if (result == abi::hipSuccess) detail::may_have_joined(stream);
  return result;
}

}  // namespace hipgraft::capture
