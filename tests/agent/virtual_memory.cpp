// The virtual memory API. Its errors are those of the genuine library: a call that succeeds here
// and fails there would hide faults.
#include <sys/mman.h>

#include <map>
#include <mutex>

#include "agent.h"
#include "device_file.h"

namespace softagent {
namespace {

struct Reservation {
  size_t size;
  uint32_t mappings = 0;
};

// Physical memory.
struct Memory {
  Pool* pool;
  hsa_amd_memory_type_t type;
  size_t size;
  off_t offset;
  uint32_t references = 1;
  uint32_t mappings = 0;
};

struct Mapping {
  size_t size;
  Memory* memory;
  Reservation* reservation;
  std::map<uint64_t, hsa_access_permission_t> permissions;  // by agent handle
};

class VirtualMemory {
 public:
  static VirtualMemory& instance() {
    static VirtualMemory& memory = *new VirtualMemory;
    return memory;
  }

  hsa_status_t reserve(void** out, size_t size, uint64_t wanted, uint64_t alignment) {
    if (!out || size == 0 || size % page_size != 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    const std::lock_guard lock(mutex_);
    void* address = reserve_at(reinterpret_cast<void*>(wanted), size);
    if (!address) address = address_space::take(size, std::max<size_t>(alignment, page_size));
    if (!address) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    reservations_[reinterpret_cast<uintptr_t>(address)] = {size};
    *out = address;
    return HSA_STATUS_SUCCESS;
  }

  hsa_status_t free_address(void* address, size_t size) {
    const std::lock_guard lock(mutex_);
    const auto found = reservations_.find(reinterpret_cast<uintptr_t>(address));
    if (found == reservations_.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    if (size != found->second.size) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    if (found->second.mappings != 0) return HSA_STATUS_ERROR_RESOURCE_FREE;
    reservations_.erase(found);
    address_space::give_back(address, size);
    return HSA_STATUS_SUCCESS;
  }

  hsa_status_t create(Pool& pool, size_t size, hsa_amd_memory_type_t type,
                      hsa_amd_vmem_alloc_handle_t* out) {
    if (!out || size == 0 || size % page_size != 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    if (pool.segment != HSA_AMD_SEGMENT_GLOBAL) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    const std::lock_guard lock(mutex_);
    if (!pool.owner->charge(size)) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    const off_t offset = device_file::take(size);
    if (offset < 0) {
      pool.owner->discharge(size);
      return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    const uint64_t handle = next_handle_++;
    memories_[handle] = {&pool, type, size, offset};
    out->handle = handle;
    return HSA_STATUS_SUCCESS;
  }

  hsa_status_t release(hsa_amd_vmem_alloc_handle_t handle) {
    const std::lock_guard lock(mutex_);
    const auto found = memories_.find(handle.handle);
    if (found == memories_.end() || found->second.references == 0) {
      return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    }
    --found->second.references;
    drop_if_unused(&found->second);
    return HSA_STATUS_SUCCESS;
  }

  hsa_status_t map(void* address, size_t size, size_t offset, hsa_amd_vmem_alloc_handle_t handle) {
    const std::lock_guard lock(mutex_);
    const auto start = reinterpret_cast<uintptr_t>(address);
    Reservation* reservation = find_reservation(start, size);
    if (!reservation || size == 0 || overlaps_mapping(start, size)) {
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    const auto found = memories_.find(handle.handle);
    if (found == memories_.end()) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    Memory& memory = found->second;
    if (offset > memory.size || size > memory.size - offset) {
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    // No access before set_access grants it.
    if (!device_file::map(address, size, memory.offset + static_cast<off_t>(offset), PROT_NONE)) {
      return HSA_STATUS_ERROR;
    }
    mappings_[start] = {size, &memory, reservation, {}};
    ++reservation->mappings;
    ++memory.mappings;
    return HSA_STATUS_SUCCESS;
  }

  hsa_status_t unmap(void* address, size_t size) {
    const std::lock_guard lock(mutex_);
    const auto start = reinterpret_cast<uintptr_t>(address);
    if (!covered_by_mappings(start, size)) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    for (auto mapping = mappings_.find(start);
         mapping != mappings_.end() && mapping->first < start + size;) {
      Memory* memory = mapping->second.memory;
      --mapping->second.reservation->mappings;
      --memory->mappings;
      mapping = mappings_.erase(mapping);
      drop_if_unused(memory);
    }
    address_space::seal(address, size);
    return HSA_STATUS_SUCCESS;
  }

  hsa_status_t set_access(void* address, size_t size, const hsa_amd_memory_access_desc_t* access,
                          size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (!find_agent(access[i].agent_handle)) return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    const std::lock_guard lock(mutex_);
    const auto start = reinterpret_cast<uintptr_t>(address);
    if (!find_reservation(start, size)) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    if (!covered_by_mappings(start, size)) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    for (auto mapping = mappings_.find(start);
         mapping != mappings_.end() && mapping->first < start + size; ++mapping) {
      for (size_t i = 0; i < count; ++i) {
        mapping->second.permissions[access[i].agent_handle.handle] = access[i].permissions;
      }
      protect(mapping->first, mapping->second);
    }
    return HSA_STATUS_SUCCESS;
  }

  hsa_status_t get_access(void* address, hsa_access_permission_t* out, hsa_agent_t agent) {
    if (!out) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    const std::lock_guard lock(mutex_);
    const Mapping* mapping = find_mapping(reinterpret_cast<uintptr_t>(address));
    if (!mapping) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    const auto found = mapping->permissions.find(agent.handle);
    *out = found == mapping->permissions.end() ? HSA_ACCESS_PERMISSION_NONE : found->second;
    return HSA_STATUS_SUCCESS;
  }

  hsa_status_t retain(void* address, hsa_amd_vmem_alloc_handle_t* out) {
    if (!out) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    const std::lock_guard lock(mutex_);
    const Mapping* mapping = find_mapping(reinterpret_cast<uintptr_t>(address));
    if (!mapping) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    for (auto& [handle, memory] : memories_) {
      if (&memory != mapping->memory) continue;
      ++memory.references;
      out->handle = handle;
    }
    return HSA_STATUS_SUCCESS;
  }

  hsa_status_t properties(hsa_amd_vmem_alloc_handle_t handle, hsa_amd_memory_pool_t* pool,
                          hsa_amd_memory_type_t* type) {
    if (!pool || !type) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    const std::lock_guard lock(mutex_);
    const auto found = memories_.find(handle.handle);
    if (found == memories_.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    *pool = to_handle<hsa_amd_memory_pool_t>(found->second.pool);
    *type = found->second.type;
    return HSA_STATUS_SUCCESS;
  }

  bool describe(const void* pointer, AddressInfo& out) {
    const std::lock_guard lock(mutex_);
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    auto mapping = mappings_.upper_bound(address);
    if (mapping != mappings_.begin() && address - (--mapping)->first < mapping->second.size) {
      out = {HSA_EXT_POINTER_TYPE_HSA_VMEM, reinterpret_cast<void*>(mapping->first),
             mapping->second.size, mapping->second.memory->pool};
      return true;
    }
    auto reservation = reservations_.upper_bound(address);
    if (reservation == reservations_.begin()) return false;
    --reservation;
    if (address - reservation->first >= reservation->second.size) return false;
    out = {HSA_EXT_POINTER_TYPE_RESERVED_ADDR, reinterpret_cast<void*>(reservation->first),
           reservation->second.size, nullptr};
    return true;
  }

 private:
  static void* reserve_at(void* wanted, size_t size) {
    if (!wanted) return nullptr;
    void* address = mmap(wanted, size, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    return address == MAP_FAILED ? nullptr : address;
  }

  void drop_if_unused(Memory* memory) {
    if (memory->references != 0 || memory->mappings != 0) return;
    device_file::give_back(memory->offset, memory->size);
    memory->pool->owner->discharge(memory->size);
    std::erase_if(memories_, [&](const auto& entry) { return &entry.second == memory; });
  }

  Reservation* find_reservation(uintptr_t start, size_t size) {
    auto found = reservations_.upper_bound(start);
    if (found == reservations_.begin()) return nullptr;
    --found;
    const bool inside = start - found->first < found->second.size &&
                        size <= found->second.size - (start - found->first);
    return inside ? &found->second : nullptr;
  }

  Mapping* find_mapping(uintptr_t start) {
    const auto found = mappings_.find(start);
    return found == mappings_.end() ? nullptr : &found->second;
  }

  bool overlaps_mapping(uintptr_t start, size_t size) const {
    auto next = mappings_.lower_bound(start);
    if (next != mappings_.end() && next->first < start + size) return true;
    if (next == mappings_.begin()) return false;
    --next;
    return next->first + next->second.size > start;
  }

  // The range must be exactly a row of mappings.
  bool covered_by_mappings(uintptr_t start, size_t size) const {
    uintptr_t reached = start;
    while (reached < start + size) {
      const auto found = mappings_.find(reached);
      if (found == mappings_.end()) return false;
      reached += found->second.size;
    }
    return size != 0 && reached == start + size;
  }

  // One process sees all agents' accesses, so the widest permission rules.
  static void protect(uintptr_t start, const Mapping& mapping) {
    int protection = PROT_NONE;
    for (const auto& [agent, permission] : mapping.permissions) {
      if (permission & HSA_ACCESS_PERMISSION_RO) protection |= PROT_READ;
      if (permission & HSA_ACCESS_PERMISSION_WO) protection |= PROT_READ | PROT_WRITE;
    }
    mprotect(reinterpret_cast<void*>(start), mapping.size, protection);
  }

  std::mutex mutex_;
  std::map<uintptr_t, Reservation> reservations_;
  std::map<uintptr_t, Mapping> mappings_;
  std::map<uint64_t, Memory> memories_;
  // Handle 0 is what the runtime releases after a failed creation.
  uint64_t next_handle_ = 1;
};

}  // namespace

bool find_virtual_memory(const void* address, AddressInfo& out) {
  return VirtualMemory::instance().describe(address, out);
}

}  // namespace softagent

using softagent::VirtualMemory;

// The call's line in the trace shows how it ended.
#define TRACED_RESULT(format, ...)                                                    \
  SOFTAGENT_CALL_WITH(format " -> 0x%x", __VA_ARGS__, static_cast<unsigned>(status)); \
  return status

hsa_status_t hsa_amd_vmem_address_reserve_align(void** va, size_t size, uint64_t address,
                                                uint64_t alignment, uint64_t) {
  const hsa_status_t status = VirtualMemory::instance().reserve(va, size, address, alignment);
  TRACED_RESULT("size=%zu va=%p", size, status == HSA_STATUS_SUCCESS ? *va : nullptr);
}

hsa_status_t hsa_amd_vmem_address_reserve(void** va, size_t size, uint64_t address, uint64_t) {
  const hsa_status_t status = VirtualMemory::instance().reserve(va, size, address, 0);
  TRACED_RESULT("size=%zu va=%p", size, status == HSA_STATUS_SUCCESS ? *va : nullptr);
}

hsa_status_t hsa_amd_vmem_address_free(void* va, size_t size) {
  const hsa_status_t status = VirtualMemory::instance().free_address(va, size);
  TRACED_RESULT("va=%p size=%zu", va, size);
}

hsa_status_t hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t pool_handle, size_t size,
                                        hsa_amd_memory_type_t type, uint64_t,
                                        hsa_amd_vmem_alloc_handle_t* memory_handle) {
  softagent::Pool* pool = softagent::find_pool(pool_handle);
  const hsa_status_t status =
      pool ? VirtualMemory::instance().create(*pool, size, type, memory_handle)
           : static_cast<hsa_status_t>(HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
  TRACED_RESULT("size=%zu", size);
}

hsa_status_t hsa_amd_vmem_handle_release(hsa_amd_vmem_alloc_handle_t memory_handle) {
  const hsa_status_t status = VirtualMemory::instance().release(memory_handle);
  TRACED_RESULT("handle=%llu", static_cast<unsigned long long>(memory_handle.handle));
}

hsa_status_t hsa_amd_vmem_map(void* va, size_t size, size_t in_offset,
                              hsa_amd_vmem_alloc_handle_t memory_handle, uint64_t) {
  const hsa_status_t status = VirtualMemory::instance().map(va, size, in_offset, memory_handle);
  TRACED_RESULT("va=%p size=%zu", va, size);
}

hsa_status_t hsa_amd_vmem_unmap(void* va, size_t size) {
  const hsa_status_t status = VirtualMemory::instance().unmap(va, size);
  TRACED_RESULT("va=%p size=%zu", va, size);
}

hsa_status_t hsa_amd_vmem_set_access(void* va, size_t size,
                                     const hsa_amd_memory_access_desc_t* desc, size_t desc_cnt) {
  const hsa_status_t status = VirtualMemory::instance().set_access(va, size, desc, desc_cnt);
  TRACED_RESULT("va=%p size=%zu", va, size);
}

hsa_status_t hsa_amd_vmem_get_access(void* va, hsa_access_permission_t* perms,
                                     hsa_agent_t agent_handle) {
  const hsa_status_t status = VirtualMemory::instance().get_access(va, perms, agent_handle);
  TRACED_RESULT("va=%p", va);
}

hsa_status_t hsa_amd_vmem_retain_alloc_handle(hsa_amd_vmem_alloc_handle_t* memory_handle,
                                              void* addr) {
  const hsa_status_t status = VirtualMemory::instance().retain(addr, memory_handle);
  TRACED_RESULT("va=%p", addr);
}

hsa_status_t hsa_amd_vmem_get_alloc_properties_from_handle(
    hsa_amd_vmem_alloc_handle_t memory_handle, hsa_amd_memory_pool_t* pool,
    hsa_amd_memory_type_t* type) {
  SOFTAGENT_CALL();
  return VirtualMemory::instance().properties(memory_handle, pool, type);
}
