// Shared internals of the software HSA agent: one CPU agent and pretend GPUs backed by host memory.
#pragma once

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "counters.h"

namespace softagent {

inline constexpr size_t page_size = 4096;
inline constexpr size_t large_page_size = size_t{2} << 20;

constexpr size_t align_up(size_t value, size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Nanoseconds of the clock that HSA calls the system timestamp.
uint64_t now_ns();

template <class Handle, class Object>
Handle to_handle(const Object* object) {
  return Handle{reinterpret_cast<uint64_t>(object)};
}

// The caller of a get_info function owns the bytes behind `out`; they need not be aligned.
template <class Value>
hsa_status_t answer(void* out, const Value& value) {
  std::memcpy(out, &value, sizeof value);
  return HSA_STATUS_SUCCESS;
}

struct Agent;

struct Pool {
  Agent* owner;
  hsa_amd_segment_t segment;
  uint32_t global_flags;
  size_t size;
};

struct Agent {
  hsa_device_type_t type;
  uint32_t node;
  uint32_t gpu = 0;  // number among the GPUs
  std::string isa;   // full ISA name; empty for the CPU
  std::string name;  // gfx... or a CPU name
  std::vector<Pool> pools;
  std::atomic<uint64_t> bytes_in_use{0};

  bool is_gpu() const { return type == HSA_DEVICE_TYPE_GPU; }
  // Only a GPU's memory is limited. False: it does not fit.
  bool charge(size_t bytes);
  void discharge(size_t bytes);
};

// All agents, the CPU first. Never changes, never dies: worker threads outlive static destructors.
const std::vector<Agent*>& agents();
Agent* find_agent(hsa_agent_t handle);  // null if there is none
Pool* find_pool(hsa_amd_memory_pool_t handle);
uint64_t device_bytes_in_use();
uint64_t device_bytes_in_use(uint32_t gpu);

// Hands out address ranges without access. A range that was given back stays without access, so
// that stale pointers fault; with SOFTAGENT_ADDRESS_REUSE=on it may be handed out again.
namespace address_space {
void* take(size_t size, size_t alignment);  // null when the process has no addresses left
void seal(void* address, size_t size);      // drops what is mapped there, keeps the range
void give_back(void* address, size_t size);
}  // namespace address_space

// What the virtual memory API knows about an address; used by hsa_amd_pointer_info.
struct AddressInfo {
  hsa_amd_pointer_type_t type;
  void* base;
  size_t size;
  const Pool* pool;  // null for a bare reservation
};
bool find_virtual_memory(const void* address, AddressInfo& out);

}  // namespace softagent
