#include "capture/session.h"

#include <algorithm>

#include "capture/beside.h"
#include "capture/census.h"
#include "capture/handles.h"
#include "capture/ordering.h"
#include "capture/plans.h"
#include "capture/records.h"
#include "runtime/calls.h"
#include "runtime/last_error.h"
#include "runtime/real.h"

namespace hipgraft::capture {
namespace {

using namespace abi;

SessionRef find_session(std::uint64_t id) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.sessions.find(id);
  return found != s.sessions.end() ? found->second : nullptr;
}

SessionRef session_begun_on(StreamKey origin) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const auto& [id, session] : s.sessions) {
    if (session->origin == origin) return session;
  }
  return nullptr;
}

// Ends of one capture race at most with its abandonment: whoever takes it out has it.
bool take_out(const SessionRef& session) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.sessions.erase(session->id) != 0;
}

// The runtime has ended the capture as well.
void capture_is_over() { state().live_sessions.fetch_sub(1); }

// Adds a node whose dependencies are known, as those of most nodes are that are met for the first
// time. False if that was not the whole story.
bool learn_one(Session& session, dag::NodeId node) {
  State& s = state();
  std::vector<dag::NodeId> dependencies;
  {
    const std::lock_guard lock(s.mutex);
    if (session.mirror.knows(node)) return true;
  }
  if (!runtime::dependencies_of(node, dependencies)) return false;
  const std::lock_guard lock(s.mutex);
  const bool known = std::all_of(dependencies.begin(), dependencies.end(),
                                 [&](dag::NodeId id) { return session.mirror.knows(id); });
  if (known) session.mirror.add(node, dependencies);
  return known;
}

// Teaches the mirror what precedes the terminals. The walk asks the runtime, so it holds no lock;
// threads that walk at once learn the same.
bool learn(Session& session, const std::vector<dag::NodeId>& terminals) {
  State& s = state();
  const bool learnt = std::all_of(terminals.begin(), terminals.end(),
                                  [&](dag::NodeId node) { return learn_one(session, node); });
  if (learnt) return true;
  std::vector<dag::Seen> seen;
  const auto knows = [&](dag::NodeId node) {
    const std::lock_guard lock(s.mutex);
    return session.mirror.knows(node);
  };
  if (!dag::walk_unknown(terminals, knows, runtime::dependencies_of, seen)) return false;
  const std::lock_guard lock(s.mutex);
  for (const dag::Seen& entry : seen) session.mirror.add(entry.node, entry.dependencies);
  return true;
}

const dag::Marks kNever{.places = {}, .never = true};

dag::Marks marks_behind(const Session& session, const std::vector<dag::NodeId>& nodes, bool known) {
  const std::lock_guard lock(state().mutex);
  return known ? session.mirror.marks(nodes) : kNever;
}

// What a capture that comes to nothing leaves: its memory goes back at once, since nothing ran, and
// the program may still free the pointers that it was given. With the lock held.
void drop_memory(Session& session) {
  for (const MemoryRef& memory : session.own) {
    for (const auto& block : memory->region.live()) state().zombies.insert(block.address);
  }
  session.own.clear();
  session.holder = {};
}

void abandon(const SessionRef& session) {
  if (session == nullptr || !take_out(session)) return;
  const std::lock_guard lock(state().mutex);
  record_capture(*session, report::Status::abandoned, {});
  drop_memory(*session);
  capture_is_over();
}

hipError_t end_invalidated(const SessionRef& session, hipGraph_t* graph) {
  const hipError_t result = runtime::real().hipStreamEndCapture(session->stream, graph);
  *graph = nullptr;  // 6.4 and 7.2 leave an uninitialised value
  runtime::reset_invalidated(session->stream);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  record_capture(*session, report::Status::broken, {});
  drop_memory(*session);
  return result;
}

// Last nodes of streams that have joined which the origin has not joined in turn. The runtime would
// refuse to end (904) and leave all streams capturing for ever. A node that the program has added
// by hand is not a stream's, and needs no join.
std::vector<dag::NodeId> unjoined_leaves(const Session& session, const Position& at) {
  std::vector<dag::NodeId> ends = session.left;
  for (const hipStream_t fork : session.forks) {
    const runtime::CaptureView view = runtime::capture_of(fork);
    if (!view.active() || view.id != session.id) continue;
    ends.insert(ends.end(), view.terminals.begin(), view.terminals.end());
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::erase_if(ends, [&](dag::NodeId node) {
    const bool joined =
        std::find(at.terminals.begin(), at.terminals.end(), node) != at.terminals.end();
    return joined || !runtime::is_leaf(node);
  });
  return ends;
}

// True if the runtime will let the capture end. `joined` tells whether that took a join.
bool join_forks(const Session& session, const Position& at, bool& joined) {
  std::vector<dag::NodeId> all = unjoined_leaves(session, at);
  if (all.empty()) return true;
  joined = true;
  all.insert(all.end(), at.terminals.begin(), at.terminals.end());
  return runtime::set_terminals(session.stream, all);
}

hipError_t end_unjoined(const SessionRef& session, hipGraph_t* graph) {
  hipGraph_t discarded = nullptr;
  if (runtime::real().hipStreamEndCapture(session->stream, &discarded) == hipSuccess) {
    runtime::real().hipGraphDestroy(discarded);
  }
  *graph = nullptr;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  record_capture(*session, report::Status::broken, {});
  drop_memory(*session);
  return runtime::answer(hipErrorStreamCaptureUnjoined);
}

hipError_t end_active(Call call, const SessionRef& session, const runtime::CaptureView& view,
                      hipGraph_t* graph) {
  const Position at{session, view.terminals, true};
  bool joined = false;
  const bool endable = join_forks(*session, at, joined);
  if (joined && !options().join) {
    note_first_cause(*session, call, hipErrorStreamCaptureUnjoined,
                     "work on a forked stream was not joined to the origin (HIPGRAFT_JOIN=off)");
  }
  if (joined && endable && !options().join) return end_unjoined(session, graph);

  const hipError_t result = runtime::real().hipStreamEndCapture(session->stream, graph);
  const Census census = result == hipSuccess ? take_census(*graph, session->foreign) : Census{};
  if (result != hipSuccess) note_first_cause(*session, call, result, "");
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (result != hipSuccess) {
    record_capture(*session, report::Status::broken, {});
    drop_memory(*session);
    return result;
  }
  for (const MemoryRef& memory : session->own) {
    keep_plan(session->begun.caller, memory->device, memory->region.finish());
  }
  session->holder.record = record_capture(*session, report::Status::ok, census);
  for (const MemoryRef& memory : session->own) {
    for (const auto& block : memory->region.live()) memory->dormant.push_back(block.address);
  }
  graph_captured(std::move(session->holder), *graph);
  session->own.clear();
  session->holder = {};
  return result;
}

}  // namespace

std::optional<Position> position(hipStream_t stream) {
  if (state().live_sessions.load(std::memory_order_acquire) == 0) return std::nullopt;
  const runtime::KeepLastError keep;
  runtime::CaptureView view = runtime::capture_of(stream);
  if (!view.active()) return std::nullopt;
  SessionRef session = find_session(view.id);
  if (session == nullptr) return std::nullopt;
  const bool known = learn(*session, view.terminals);
  return Position{std::move(session), std::move(view.terminals), known};
}

dag::Marks marks_of(const Position& at) {
  return marks_behind(*at.session, at.terminals, at.known);
}

dag::Marks marks_of(const SessionRef& session, hipGraphNode_t node) {
  const std::vector<dag::NodeId> nodes{reinterpret_cast<dag::NodeId>(node)};
  return marks_behind(*session, nodes, learn(*session, nodes));
}

dag::Marks marks_of_all(const SessionRef& session) {
  // Others may be adding nodes meanwhile: the runtime's list is only safe to read where it grows.
  const bool safe = session->thread == this_thread();
  const bool known = safe && learn(*session, runtime::nodes_of(session->graph));
  const std::lock_guard lock(state().mutex);
  return known ? session->mirror.marks_of_all() : kNever;
}

SessionRef session_into(hipGraph_t graph) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const auto& [id, session] : s.sessions) {
    if (session->graph == graph) return session;
  }
  return nullptr;
}

hipError_t end_capture(Call call, hipStream_t stream, hipGraph_t* graph) {
  const auto& end = runtime::real().hipStreamEndCapture;
  if (graph == nullptr) return end(stream, graph);
  const SessionRef session = session_begun_on(key_of(stream));
  // Never begun, a fork, begun past us, or ended already: the runtime refuses all of these safely,
  // because every end of ours leaves the stream without a capture.
  if (session == nullptr) return end(stream, graph);
  if (session->asked != hipStreamCaptureModeRelaxed && session->thread != this_thread()) {
    return runtime::answer(hipErrorStreamCaptureWrongThread);
  }
  if (!take_out(session)) return runtime::answer(hipErrorIllegalState);

  const runtime::CaptureView view = runtime::capture_of(stream);
  const hipError_t result = view.status == hipStreamCaptureStatusInvalidated
                                ? end_invalidated(session, graph)
                                : end_active(call, session, view, graph);
  capture_is_over();
  rejoin_stand_ins();
  run_frees_beside();
  return result;
}

bool invalidated(hipStream_t stream) {
  return state().live_sessions.load(std::memory_order_acquire) != 0 &&
         runtime::capture_of(stream).status == hipStreamCaptureStatusInvalidated;
}

Leaving::Leaving(hipStream_t stream) {
  seal(stream);
  stream_destroyed(key_of(stream));
  State& s = state();
  if (s.live_sessions.load(std::memory_order_acquire) == 0) return;
  begun_ = session_begun_on(key_of(stream));
  if (begun_ != nullptr) {
    if (!take_out(begun_)) begun_ = nullptr;
    return;
  }
  const runtime::CaptureView view = runtime::capture_of(stream);
  const SessionRef joined = view.active() ? find_session(view.id) : nullptr;
  if (joined == nullptr) return;
  const std::lock_guard lock(s.mutex);
  std::erase(joined->forks, stream);
  joined->left.insert(joined->left.end(), view.terminals.begin(), view.terminals.end());
}

void Leaving::stay() {
  if (begun_ == nullptr) return;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.sessions[begun_->id] = begun_;
}

void Leaving::left() {
  if (begun_ == nullptr) return;
  {
    const std::lock_guard lock(state().mutex);
    record_capture(*begun_, report::Status::abandoned, {});
    drop_memory(*begun_);
  }
  capture_is_over();
  run_frees_beside();
}

void forget_captures(int device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (auto entry = s.sessions.begin(); entry != s.sessions.end();) {
    if (entry->second->device != device) {
      ++entry;
      continue;
    }
    record_capture(*entry->second, report::Status::abandoned, {});
    entry = s.sessions.erase(entry);
    capture_is_over();
  }
}

void note_first_cause(Session& session, Call call, hipError_t error, std::string detail) {
  report::Cause cause{call.name, runtime::error_name(error), site_of(call.caller),
                      std::move(detail)};
  const std::lock_guard lock(state().mutex);
  if (!session.first_cause) session.first_cause = std::move(cause);
}

namespace detail {

// Before the call: what other threads may do beside a capture has changed when it returns.
void beginning() { state().live_sessions.fetch_add(1); }
void not_begun() { capture_is_over(); }

void began(Call call, hipStream_t stream, hipStreamCaptureMode asked) {
  const runtime::CaptureView view = runtime::capture_of(stream);
  if (!view.active()) return not_begun();
  // The runtime lets an invalidated stream begin again without an end.
  abandon(session_begun_on(key_of(stream)));

  auto session = std::make_shared<Session>();
  session->id = view.id;
  session->stream = stream;
  session->graph = view.graph;
  session->origin = key_of(stream);
  session->device = runtime::device_of(stream);
  session->asked = asked;
  session->thread = this_thread();
  session->begun = call;
  session->site = site_of(call.caller);
  session->foreign = runtime::nodes_of(view.graph);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.sessions[view.id] = std::move(session);
}

bool may_join(hipStream_t stream) {
  return state().live_sessions.load(std::memory_order_acquire) != 0 &&
         !runtime::capture_of(stream).active();
}

void may_have_joined(hipStream_t stream) {
  const runtime::CaptureView view = runtime::capture_of(stream);
  if (!view.active()) return;
  if (const SessionRef session = find_session(view.id)) {
    const std::lock_guard lock(state().mutex);
    session->forks.push_back(stream);
  }
}

}  // namespace detail
}  // namespace hipgraft::capture
