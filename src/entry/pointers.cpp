// Questions about memory. hipPointerGetAttributes is not among them: what it tells of a pointer
// into a chunk is right for the block.
#include "capture/pointers.h"

#include "entry/guard.h"

using namespace hipgraft;
using namespace hipgraft::abi;

namespace {

using Block = std::optional<arena::BlockIndex::Block>;

Block block_around(const entry::Guard& guard, const void* pointer) {
  return guard.watched() ? capture::block_around(pointer) : std::nullopt;
}

bool in_arena(const entry::Guard& guard, const void* pointer) {
  return guard.watched() && capture::in_arena(pointer);
}

}  // namespace

HIPGRAFT_EXPORT hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* size,
                                                 hipDeviceptr_t ptr) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipMemGetAddressRange(base, size, ptr);
  const Block block = block_around(guard, ptr);
  if (!block || result != hipSuccess) return result;
  *base = reinterpret_cast<void*>(block->address);
  *size = block->bytes;
  return result;
}

HIPGRAFT_EXPORT hipError_t hipMemPtrGetInfo(void* ptr, size_t* size) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipMemPtrGetInfo(ptr, size);
  const Block block = block_around(guard, ptr);
  if (block && result == hipSuccess) *size = block->bytes;
  return result;
}

HIPGRAFT_EXPORT hipError_t hipPointerGetAttribute(void* data, hipPointer_attribute attribute,
                                                  hipDeviceptr_t ptr) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipPointerGetAttribute(data, attribute, ptr);
  const Block block = block_around(guard, ptr);
  if (block && result == hipSuccess) capture::correct_attribute(*block, attribute, data);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipDrvPointerGetAttributes(unsigned int numAttributes,
                                                      hipPointer_attribute* attributes, void** data,
                                                      hipDeviceptr_t ptr) {
  HIPGRAFT_GUARD;
  const hipError_t result =
      guard.real().hipDrvPointerGetAttributes(numAttributes, attributes, data, ptr);
  const Block block = block_around(guard, ptr);
  if (!block || result != hipSuccess) return result;
  for (unsigned i = 0; i < numAttributes; ++i) {
    capture::correct_attribute(*block, attributes[i], data[i]);
  }
  return result;
}

// The errors are those that 6.4 and 7.2 give for memory of a graph. A retained handle is one that
// can be exported.

HIPGRAFT_EXPORT hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t* handle, void* ptr) {
  HIPGRAFT_GUARD;
  if (!in_arena(guard, ptr)) return guard.real().hipIpcGetMemHandle(handle, ptr);
  static constinit std::atomic_flag said;
  return capture::refuse_export("hipIpcGetMemHandle", hipErrorInvalidValue, said);
}

HIPGRAFT_EXPORT hipError_t hipMemPoolExportPointer(hipMemPoolPtrExportData* data, void* ptr) {
  HIPGRAFT_GUARD;
  if (!in_arena(guard, ptr)) return guard.real().hipMemPoolExportPointer(data, ptr);
  static constinit std::atomic_flag said;
  return capture::refuse_export("hipMemPoolExportPointer", hipErrorOutOfMemory, said);
}

HIPGRAFT_EXPORT hipError_t hipMemGetHandleForAddressRange(void* handle, hipDeviceptr_t ptr,
                                                          size_t size,
                                                          hipMemRangeHandleType handleType,
                                                          unsigned long long flags) {
  HIPGRAFT_GUARD;
  if (!in_arena(guard, ptr)) {
    return guard.real().hipMemGetHandleForAddressRange(handle, ptr, size, handleType, flags);
  }
  static constinit std::atomic_flag said;
  return capture::refuse_export("hipMemGetHandleForAddressRange", hipErrorInvalidValue, said);
}

HIPGRAFT_EXPORT hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t* handle,
                                                        void* ptr) {
  HIPGRAFT_GUARD;
  if (!in_arena(guard, ptr)) return guard.real().hipMemRetainAllocationHandle(handle, ptr);
  static constinit std::atomic_flag said;
  return capture::refuse_export("hipMemRetainAllocationHandle", hipErrorInvalidValue, said);
}

HIPGRAFT_EXPORT hipError_t hipDeviceGetGraphMemAttribute(int device,
                                                         hipGraphMemAttributeType attribute,
                                                         void* value) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipDeviceGetGraphMemAttribute(device, attribute, value);
  if (guard.ours() && result == hipSuccess) {
    capture::add_graph_memory(device, attribute, *static_cast<std::uint64_t*>(value));
  }
  return result;
}

HIPGRAFT_EXPORT hipError_t hipDeviceSetGraphMemAttribute(int device,
                                                         hipGraphMemAttributeType attribute,
                                                         void* value) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipDeviceSetGraphMemAttribute(device, attribute, value);
  if (guard.ours() && result == hipSuccess) capture::reset_graph_memory(device, attribute);
  return result;
}
