#include "capture/host_blocks.h"

#include "capture/allocation.h"
#include "capture/session.h"
#include "runtime/calls.h"

namespace hipgraft::capture {
namespace {

using arena::Address;

// The one capture that the thread has begun; null if there are several, since which of them the
// memory is for cannot be told.
SessionRef own_capture() {
  State& s = state();
  SessionRef own;
  const std::lock_guard lock(s.mutex);
  for (const auto& [id, session] : s.sessions) {
    if (session->thread != this_thread()) continue;
    if (own != nullptr) return nullptr;
    own = session;
  }
  return own;
}

SessionRef capture_of_block(Address address) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const auto& [id, session] : s.sessions) {
    if (session->host_blocks.contains(address)) return session;
  }
  return nullptr;
}

// Of frees of one block at once, one gets it.
std::optional<HostBlock> take_out(Session& session, Address address) {
  const std::lock_guard lock(state().mutex);
  const auto entry = session.host_blocks.find(address);
  if (entry == session.host_blocks.end()) return std::nullopt;
  const HostBlock block = entry->second;
  session.host_blocks.erase(entry);
  return block;
}

// Nothing will run what a killed capture has captured, whether or not the program ever ends it.
bool killed(const Session& session) {
  return runtime::capture_of(session.stream).status == abi::hipStreamCaptureStatusInvalidated;
}

// What precedes the free, if it is one of the capture: not one on a stream that runs now.
std::optional<dag::Marks> marks_of_free(const SessionRef& session, const abi::hipStream_t* stream) {
  if (killed(*session)) return std::nullopt;
  if (stream == nullptr) return marks_of_all(session);
  const std::optional<Position> at = position(*stream);
  if (!at || at->session != session) return std::nullopt;
  return marks_of(*at);
}

}  // namespace

void host_block_allocated(void* pointer, std::size_t bytes) {
  if (pointer == nullptr || bytes == 0 || !serving()) return;
  const SessionRef session = own_capture();
  if (session == nullptr || killed(*session)) return;
  const HostBlock block{bytes, runtime::current_device()};
  const std::lock_guard lock(state().mutex);
  session->host_blocks[reinterpret_cast<Address>(pointer)] = block;
}

Answer free_host_block(void* pointer, const abi::hipStream_t* stream) {
  if (!serving()) return std::nullopt;
  const auto address = reinterpret_cast<Address>(pointer);
  const SessionRef session = capture_of_block(address);
  if (session == nullptr) return std::nullopt;
  const std::optional<dag::Marks> marks = marks_of_free(session, stream);
  const std::optional<HostBlock> block = take_out(*session, address);
  if (!marks || !block) return std::nullopt;
  // Streams that do not capture may be using it, and nothing but this wait orders them.
  if (stream == nullptr) wait_like_free(block->device);
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    if (!s.sessions.contains(session->id)) return std::nullopt;  // ended meanwhile
    const arena::Extent freed{address, arena::round_up(block->bytes, arena::kAlignment)};
    adopt(*session, block->device, freed, *marks);
  }
  // Former captures' memory of this kind: the wait was for that, too.
  if (stream == nullptr) trim(Trim::unused);
  return abi::hipSuccess;
}

}  // namespace hipgraft::capture
