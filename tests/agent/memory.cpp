// Pool memory, host memory locked for the GPU, and what is known about a pointer.
#include <sys/mman.h>

#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>

#include "agent.h"
#include "device_file.h"
#include "memory.h"
#include "options.h"

namespace softagent {
namespace {

// Reserved in large pieces: one mapping each, whatever is carved out of it.
class AddressSpace {
 public:
  void* take(size_t size, size_t alignment) {
    const std::lock_guard lock(mutex_);
    const auto reusable = given_back_.find(size);
    if (reusable != given_back_.end() && !reusable->second.empty()) {
      void* address = reusable->second.back();
      reusable->second.pop_back();
      return address;
    }
    uintptr_t start = align_up(cursor_, alignment);
    if (cursor_ == 0 || start + size > end_) {
      if (!reserve(size + alignment)) return nullptr;
      start = align_up(cursor_, alignment);
    }
    cursor_ = start + size;
    return reinterpret_cast<void*>(start);
  }

  void give_back(void* address, size_t size) {
    if (!options().address_reuse) return;
    const std::lock_guard lock(mutex_);
    given_back_[size].push_back(address);
  }

 private:
  bool reserve(size_t at_least) {
    for (const size_t size : {std::max(at_least, size_t{64} << 30), at_least}) {
      void* piece =
          mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (piece == MAP_FAILED) continue;
      cursor_ = reinterpret_cast<uintptr_t>(piece);
      end_ = cursor_ + size;
      return true;
    }
    return false;
  }

  std::mutex mutex_;
  uintptr_t cursor_ = 0;
  uintptr_t end_ = 0;
  std::unordered_map<size_t, std::vector<void*>> given_back_;
};

AddressSpace& addresses() {
  static AddressSpace& instance = *new AddressSpace;
  return instance;
}

struct Block {
  size_t size;
  size_t mapped_size;
  Pool* pool;         // null: the program's own memory, locked for the GPU
  off_t offset = -1;  // in the device file; CPU memory is not in it
  uint32_t locks = 0;
  void* user_data = nullptr;
};

using Blocks = std::map<uintptr_t, Block>;

// The last blocks that were freed, so that a message can name them.
class FreedBlocks {
 public:
  void add(uintptr_t address, const Block& block) {
    blocks_[address] = block;
    order_.push_back(address);
    if (order_.size() <= most) return;
    blocks_.erase(order_.front());
    order_.pop_front();
  }
  Blocks& blocks() { return blocks_; }

 private:
  static constexpr size_t most = 4096;
  Blocks blocks_;
  std::deque<uintptr_t> order_;
};

struct Registry {
  std::mutex mutex;
  Blocks allocated;
  Blocks locked;
  Blocks imported;  // from other processes
  FreedBlocks freed;
};

Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

Blocks::iterator find_covering(Blocks& blocks, const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto block = blocks.upper_bound(address);
  if (block == blocks.begin()) return blocks.end();
  --block;
  return address - block->first < block->second.size ? block : blocks.end();
}

// A GPU's memory lies in the device file, so that other processes can map it.
bool map_block(void* address, Block& block) {
  if (!block.pool->owner->is_gpu()) {
    return mprotect(address, block.mapped_size, PROT_READ | PROT_WRITE) == 0;
  }
  block.offset = device_file::take(block.mapped_size);
  return block.offset >= 0 &&
         device_file::map(address, block.mapped_size, block.offset, PROT_READ | PROT_WRITE);
}

hsa_status_t allocate(Pool& pool, size_t size, void** out) {
  if (size == 0 || !out) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (pool.segment != HSA_AMD_SEGMENT_GLOBAL) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  if (size > pool.size) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  const size_t mapped_size = align_up(size, page_size);
  if (!pool.owner->charge(mapped_size)) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  const size_t alignment = size >= large_page_size ? large_page_size : page_size;
  void* address = address_space::take(mapped_size, alignment);
  Block block{size, mapped_size, &pool};
  if (!address || !map_block(address, block)) {
    pool.owner->discharge(mapped_size);
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  }
  const std::lock_guard lock(registry().mutex);
  registry().allocated[reinterpret_cast<uintptr_t>(address)] = block;
  *out = address;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t release(void* address) {
  if (!address) return HSA_STATUS_SUCCESS;
  Block block;
  {
    const std::lock_guard lock(registry().mutex);
    const auto found = registry().allocated.find(reinterpret_cast<uintptr_t>(address));
    if (found == registry().allocated.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    block = found->second;
    registry().allocated.erase(found);
    registry().freed.add(reinterpret_cast<uintptr_t>(address), block);
  }
  if (block.offset >= 0) device_file::give_back(block.offset, block.mapped_size);
  address_space::give_back(address, block.mapped_size);
  block.pool->owner->discharge(block.mapped_size);
  return HSA_STATUS_SUCCESS;
}

// Host memory needs no translation here: the GPU's view of it is the pointer itself.
hsa_status_t lock_host_memory(void* host_ptr, size_t size, void** agent_ptr) {
  if (!host_ptr || size == 0 || !agent_ptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const std::lock_guard lock(registry().mutex);
  Block& block = registry().locked[reinterpret_cast<uintptr_t>(host_ptr)];
  block.size = std::max(block.size, size);
  ++block.locks;
  *agent_ptr = host_ptr;
  return HSA_STATUS_SUCCESS;
}

bool describe(const void* pointer, AddressInfo& info, void*& user_data) {
  const std::lock_guard lock(registry().mutex);
  if (const auto found = find_covering(registry().allocated, pointer);
      found != registry().allocated.end()) {
    const Block& block = found->second;
    info = {HSA_EXT_POINTER_TYPE_HSA, reinterpret_cast<void*>(found->first), block.size,
            block.pool};
    user_data = block.user_data;
    return true;
  }
  if (const auto found = find_covering(registry().locked, pointer);
      found != registry().locked.end()) {
    info = {HSA_EXT_POINTER_TYPE_LOCKED, reinterpret_cast<void*>(found->first), found->second.size,
            &agents().front()->pools.front()};
    user_data = found->second.user_data;
    return true;
  }
  if (const auto found = find_covering(registry().imported, pointer);
      found != registry().imported.end()) {
    info = {HSA_EXT_POINTER_TYPE_IPC, reinterpret_cast<void*>(found->first), found->second.size,
            found->second.pool};
    return true;
  }
  return find_virtual_memory(pointer, info);
}

const char* kind_of(const AddressInfo& info) {
  switch (info.type) {
    case HSA_EXT_POINTER_TYPE_LOCKED:
      return "locked ";
    case HSA_EXT_POINTER_TYPE_IPC:
      return "imported ";
    case HSA_EXT_POINTER_TYPE_HSA_VMEM:
      return "mapped ";
    case HSA_EXT_POINTER_TYPE_RESERVED_ADDR:
      return "reserved, not mapped, ";
    default:
      return "";
  }
}

std::string name_place(const char* kind, const AddressInfo& info, const void* pointer) {
  const bool gpu = info.pool && info.pool->owner->is_gpu();
  const std::string owner = gpu         ? "gpu" + std::to_string(info.pool->owner->gpu) + " "
                            : info.pool ? "host "
                                        : "";
  char place[96];
  std::snprintf(
      place, sizeof place, "%p+0x%zx of %zu", info.base,
      static_cast<size_t>(static_cast<const char*>(pointer) - static_cast<const char*>(info.base)),
      info.size);
  return kind + owner + place;
}

bool find_freed(const void* pointer, AddressInfo& info) {
  const std::lock_guard lock(registry().mutex);
  Blocks& freed = registry().freed.blocks();
  const auto found = find_covering(freed, pointer);
  if (found == freed.end()) return false;
  info = {HSA_EXT_POINTER_TYPE_HSA, reinterpret_cast<void*>(found->first), found->second.size,
          found->second.pool};
  return true;
}

hsa_status_t list_all_agents(void* (*alloc)(size_t), uint32_t* count, hsa_agent_t** list) {
  if (!alloc || !count || !list) return HSA_STATUS_SUCCESS;
  *list = static_cast<hsa_agent_t*>(alloc(agents().size() * sizeof(hsa_agent_t)));
  if (!*list) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  *count = 0;
  for (const Agent* agent : agents()) (*list)[(*count)++] = to_handle<hsa_agent_t>(agent);
  return HSA_STATUS_SUCCESS;
}

}  // namespace

namespace address_space {

void* take(size_t size, size_t alignment) { return addresses().take(size, alignment); }

void seal(void* address, size_t size) {
  mmap(address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void give_back(void* address, size_t size) {
  seal(address, size);
  addresses().give_back(address, size);
}

}  // namespace address_space

bool find_device_block(const void* base, DeviceBlock& out) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().allocated.find(reinterpret_cast<uintptr_t>(base));
  if (found == registry().allocated.end() || found->second.offset < 0) return false;
  const Block& block = found->second;
  out = {reinterpret_cast<void*>(found->first), block.size, block.mapped_size, block.pool,
         block.offset};
  return true;
}

void add_imported_block(const DeviceBlock& block) {
  const std::lock_guard lock(registry().mutex);
  registry().imported[reinterpret_cast<uintptr_t>(block.base)] = {block.size, block.mapped_size,
                                                                  block.pool};
}

bool remove_imported_block(void* base, DeviceBlock& out) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().imported.find(reinterpret_cast<uintptr_t>(base));
  if (found == registry().imported.end()) return false;
  out = {base, found->second.size, found->second.mapped_size, found->second.pool, -1};
  registry().imported.erase(found);
  return true;
}

std::string describe_address(const void* pointer) {
  AddressInfo info{};
  void* user_data = nullptr;
  if (describe(pointer, info, user_data)) return name_place(kind_of(info), info, pointer);
  if (find_freed(pointer, info)) return name_place("freed ", info, pointer);
  return "unknown";
}

}  // namespace softagent

hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t memory_pool, size_t size, uint32_t,
                                          void** ptr) {
  softagent::Pool* pool = softagent::find_pool(memory_pool);
  const hsa_status_t status = pool
                                  ? softagent::allocate(*pool, size, ptr)
                                  : static_cast<hsa_status_t>(HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
  SOFTAGENT_CALL_WITH("size=%zu -> 0x%x %p", size, static_cast<unsigned>(status),
                      status == HSA_STATUS_SUCCESS ? *ptr : nullptr);
  return status;
}

hsa_status_t hsa_amd_memory_pool_free(void* ptr) {
  SOFTAGENT_CALL_WITH("ptr=%p", ptr);
  return softagent::release(ptr);
}

hsa_status_t hsa_memory_free(void* ptr) {
  SOFTAGENT_CALL_WITH("ptr=%p", ptr);
  return softagent::release(ptr);
}

hsa_status_t hsa_amd_agents_allow_access(uint32_t, const hsa_agent_t*, const uint32_t*,
                                         const void* ptr) {
  SOFTAGENT_CALL_WITH("ptr=%p", ptr);
  return ptr ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_memory_lock_to_pool(void* host_ptr, size_t size, hsa_agent_t*, int,
                                         hsa_amd_memory_pool_t, uint32_t, void** agent_ptr) {
  SOFTAGENT_CALL_WITH("ptr=%p size=%zu", host_ptr, size);
  return softagent::lock_host_memory(host_ptr, size, agent_ptr);
}

hsa_status_t hsa_amd_memory_lock(void* host_ptr, size_t size, hsa_agent_t*, int, void** agent_ptr) {
  SOFTAGENT_CALL_WITH("ptr=%p size=%zu", host_ptr, size);
  return softagent::lock_host_memory(host_ptr, size, agent_ptr);
}

hsa_status_t hsa_amd_memory_unlock(void* host_ptr) {
  SOFTAGENT_CALL_WITH("ptr=%p", host_ptr);
  softagent::Registry& registry = softagent::registry();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.locked.find(reinterpret_cast<uintptr_t>(host_ptr));
  if (found == registry.locked.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  if (--found->second.locks == 0) registry.locked.erase(found);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_memory_register(void*, size_t) {
  SOFTAGENT_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_memory_deregister(void*, size_t) {
  SOFTAGENT_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_memory_copy(void* dst, const void* src, size_t size) {
  SOFTAGENT_CALL_WITH("dst=%p src=%p size=%zu", dst, src, size);
  if (size != 0) std::memmove(dst, src, size);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_fill(void* ptr, uint32_t value, size_t count) {
  SOFTAGENT_CALL_WITH("ptr=%p count=%zu", ptr, count);
  if (!ptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  std::fill_n(static_cast<uint32_t*>(ptr), count, value);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_pointer_info(const void* ptr, hsa_amd_pointer_info_t* info,
                                  void* (*alloc)(size_t), uint32_t* num_agents_accessible,
                                  hsa_agent_t** accessible) {
  SOFTAGENT_CALL_WITH("ptr=%p", ptr);
  if (!info || info->size == 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  hsa_amd_pointer_info_t filled{};
  filled.size = static_cast<uint32_t>(std::min(size_t{info->size}, sizeof filled));
  softagent::AddressInfo found{};
  hsa_status_t status = HSA_STATUS_SUCCESS;
  if (softagent::describe(ptr, found, filled.userData)) {
    filled.type = found.type;
    filled.agentBaseAddress = found.base;
    filled.sizeInBytes = found.size;
    filled.registered = true;
    if (found.pool) {
      filled.agentOwner = softagent::to_handle<hsa_agent_t>(found.pool->owner);
      filled.global_flags = found.pool->global_flags;
      if (!found.pool->owner->is_gpu()) filled.hostBaseAddress = found.base;
    }
    status = softagent::list_all_agents(alloc, num_agents_accessible, accessible);
  }
  std::memcpy(info, &filled, filled.size);
  return status;
}

hsa_status_t hsa_amd_pointer_info_set_userdata(const void* ptr, void* userdata) {
  SOFTAGENT_CALL_WITH("ptr=%p", ptr);
  softagent::Registry& registry = softagent::registry();
  const std::lock_guard lock(registry.mutex);
  const auto found = softagent::find_covering(registry.allocated, ptr);
  if (found == registry.allocated.end()) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  found->second.user_data = userdata;
  return HSA_STATUS_SUCCESS;
}
