#include "capture/pointers.h"

#include "runtime/last_error.h"
#include "util/log.h"

namespace hipgraft::capture {
namespace {

using namespace abi;

// The runtime counts its buffers from 1.
constexpr std::uint32_t kFirstBufferId = 1U << 31;

// The arena's side of an attribute; null if it has none. With the lock held.
arena::Chunks::Gauge* gauge_of(int device, hipGraphMemAttributeType attribute) {
  State& s = state();
  const auto found = s.devices.find(device);
  if (found == s.devices.end()) return nullptr;
  switch (attribute) {
    case hipGraphMemAttrUsedMemCurrent:
    case hipGraphMemAttrUsedMemHigh:
      return &found->second.chunks.held();
    case hipGraphMemAttrReservedMemCurrent:
    case hipGraphMemAttrReservedMemHigh:
      return &found->second.chunks.total();
  }
  return nullptr;
}

bool is_high(hipGraphMemAttributeType attribute) {
  return attribute == hipGraphMemAttrUsedMemHigh || attribute == hipGraphMemAttrReservedMemHigh;
}

}  // namespace

std::optional<arena::BlockIndex::Block> block_around(const void* pointer) {
  if (!near_arena(pointer)) return std::nullopt;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.placed.around(reinterpret_cast<arena::Address>(pointer));
}

// The runtime writes pointers for addresses and 32 bits for all numbers, whatever the program's
// variable may hold (5.7 to 7.2).
void correct_attribute(const arena::BlockIndex::Block& block, hipPointer_attribute attribute,
                       void* value) {
  auto* const number = static_cast<std::uint32_t*>(value);
  switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<void**>(value) = reinterpret_cast<void*>(block.address);
      break;
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
      *number = static_cast<std::uint32_t>(block.bytes);
      break;
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID:
      *number = kFirstBufferId | block.serial;
      break;
    case HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE:
      if (*number == 1) *number = 0;  // others than 7.2 leave it as it was
      break;
  }
}

hipError_t refuse_export(const char* call, hipError_t error, std::atomic_flag& said) {
  if (!said.test_and_set()) {
    log::write(log::Level::warn,
               "{} is refused for memory that was allocated in a capture, since it would export "
               "more than that; HIPGRAFT_ARENA=off leaves the answer to the runtime",
               call);
  }
  return runtime::answer(error);
}

void add_graph_memory(int device, hipGraphMemAttributeType attribute, std::uint64_t& value) {
  const std::lock_guard lock(state().mutex);
  const arena::Chunks::Gauge* gauge = gauge_of(device, attribute);
  if (gauge != nullptr) value += is_high(attribute) ? gauge->high : gauge->now;
}

void reset_graph_memory(int device, hipGraphMemAttributeType attribute) {
  const std::lock_guard lock(state().mutex);
  arena::Chunks::Gauge* gauge = gauge_of(device, attribute);
  if (gauge != nullptr && is_high(attribute)) gauge->high = 0;
}

}  // namespace hipgraft::capture
