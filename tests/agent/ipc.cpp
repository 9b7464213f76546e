// Device memory shared between processes: a handle names the exporting process's device file and
// the place in it.
#include <fcntl.h>
#include <hsa/hsa_ext_amd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "agent.h"
#include "device_file.h"
#include "memory.h"

namespace softagent {
namespace {

struct ExportedBlock {
  uint32_t magic;
  pid_t process;
  int descriptor;
  uint32_t gpu;
  uint64_t offset;
  uint64_t size;
};
static_assert(sizeof(ExportedBlock) == sizeof(hsa_amd_ipc_memory_t));
constexpr uint32_t exported_magic = 0x1bc50f7a;

hsa_status_t export_block(void* address, size_t size, hsa_amd_ipc_memory_t* handle) {
  DeviceBlock block;
  // As the genuine library: whole allocations only.
  if (!handle || !find_device_block(address, block) ||
      align_up(size, page_size) != block.mapped_size) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  const ExportedBlock exported{exported_magic,
                               getpid(),
                               device_file::descriptor(),
                               block.pool->owner->gpu,
                               static_cast<uint64_t>(block.offset),
                               block.size};
  std::memcpy(handle, &exported, sizeof exported);
  return HSA_STATUS_SUCCESS;
}

int open_file_of(const ExportedBlock& exported) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", exported.process, exported.descriptor);
  return open(path, O_RDWR | O_CLOEXEC);
}

void* map_exported(const ExportedBlock& exported, size_t mapped_size) {
  const int file = open_file_of(exported);
  if (file < 0) return nullptr;
  void* address = address_space::take(mapped_size, large_page_size);
  if (address && mmap(address, mapped_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                      static_cast<off_t>(exported.offset)) == MAP_FAILED) {
    address = nullptr;
  }
  close(file);
  return address;
}

Agent* find_gpu(uint32_t gpu) {
  for (Agent* agent : agents()) {
    if (agent->is_gpu() && agent->gpu == gpu) return agent;
  }
  return nullptr;
}

hsa_status_t import_block(const hsa_amd_ipc_memory_t* handle, size_t size, void** out) {
  if (!handle || !out) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  ExportedBlock exported;
  std::memcpy(&exported, handle, sizeof exported);
  Agent* owner = find_gpu(exported.gpu);
  const size_t mapped_size = align_up(exported.size, page_size);
  if (exported.magic != exported_magic || !owner || align_up(size, page_size) != mapped_size) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  void* address = map_exported(exported, mapped_size);
  if (!address) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  add_imported_block({address, exported.size, mapped_size, &owner->pools.front(), 0});
  *out = address;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t drop_import(void* address) {
  DeviceBlock block;
  if (!remove_imported_block(address, block)) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  address_space::give_back(address, block.mapped_size);
  return HSA_STATUS_SUCCESS;
}

}  // namespace
}  // namespace softagent

hsa_status_t hsa_amd_ipc_memory_create(void* ptr, size_t len, hsa_amd_ipc_memory_t* handle) {
  SOFTAGENT_CALL_WITH("ptr=%p size=%zu", ptr, len);
  return softagent::export_block(ptr, len, handle);
}

hsa_status_t hsa_amd_ipc_memory_attach(const hsa_amd_ipc_memory_t* handle, size_t len, uint32_t,
                                       const hsa_agent_t*, void** mapped_ptr) {
  SOFTAGENT_CALL_WITH("size=%zu", len);
  return softagent::import_block(handle, len, mapped_ptr);
}

hsa_status_t hsa_amd_ipc_memory_detach(void* mapped_ptr) {
  SOFTAGENT_CALL_WITH("ptr=%p", mapped_ptr);
  return softagent::drop_import(mapped_ptr);
}
