#include "capture/allocation.h"
#include "entry/guard.h"
#include "runtime/calls.h"
#include "runtime/last_error.h"

using namespace hipgraft;
using namespace hipgraft::abi;

// Idle arena memory is nobody's: when the device is full it goes back, and the call is tried again.

HIPGRAFT_EXPORT hipError_t hipMalloc(void** ptr, size_t size) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipMalloc(ptr, size);
  if (result != hipErrorOutOfMemory || !guard.ours() || !capture::trim()) return result;
  return guard.real().hipMalloc(ptr, size);
}

HIPGRAFT_EXPORT hipError_t hipMallocAsync(void** ptr, size_t size, hipStream_t stream) {
  HIPGRAFT_GUARD;
  capture::Answer served;
  if (guard.ours()) {
    served = capture::allocate(HIPGRAFT_THIS_CALL(hipMallocAsync), ptr, size, stream, nullptr);
  }
  return served ? *served : guard.real().hipMallocAsync(ptr, size, stream);
}

HIPGRAFT_EXPORT hipError_t hipMallocFromPoolAsync(void** ptr, size_t size, hipMemPool_t pool,
                                                  hipStream_t stream) {
  HIPGRAFT_GUARD;
  capture::Answer served;
  if (guard.ours() && pool != nullptr) {
    served = capture::allocate(HIPGRAFT_THIS_CALL(hipMallocFromPoolAsync), ptr, size, stream, pool);
  }
  return served ? *served : guard.real().hipMallocFromPoolAsync(ptr, size, pool, stream);
}

// The frees look at the pointer whoever calls: also a callback that runs inside a call into the
// runtime may free a block, and no arena pointer may ever reach the runtime.

HIPGRAFT_EXPORT hipError_t hipFreeAsync(void* ptr, hipStream_t stream) {
  HIPGRAFT_GUARD;
  capture::Answer freed;
  if (guard.watched()) freed = capture::free_on_stream(ptr, stream);
  return freed ? *freed : guard.real().hipFreeAsync(ptr, stream);
}

HIPGRAFT_EXPORT hipError_t hipFree(void* ptr) {
  HIPGRAFT_GUARD;
  capture::Answer freed;
  if (guard.watched()) freed = capture::free_now(ptr);
  if (freed) return *freed;
  const hipError_t result = guard.real().hipFree(ptr);
  // It has waited for the device: what is idle can go at no further cost.
  if (guard.ours() && result == hipSuccess) capture::trim();
  return result;
}

HIPGRAFT_EXPORT hipError_t hipHostFree(void* ptr) {
  HIPGRAFT_GUARD;
  capture::Answer freed;
  if (guard.watched()) freed = capture::free_now(ptr);
  return freed ? *freed : guard.real().hipHostFree(ptr);
}

HIPGRAFT_EXPORT hipError_t hipFreeHost(void* ptr) {
  HIPGRAFT_GUARD;
  capture::Answer freed;
  if (guard.watched()) freed = capture::free_now(ptr);
  return freed ? *freed : guard.real().hipFreeHost(ptr);
}

// Both drop the memory object around the pointer without looking at the offset.

HIPGRAFT_EXPORT hipError_t hipHostUnregister(void* ptr) {
  HIPGRAFT_GUARD;
  if (guard.watched() && capture::in_arena(ptr)) {
    return runtime::answer(hipErrorHostMemoryNotRegistered);
  }
  return guard.real().hipHostUnregister(ptr);
}

HIPGRAFT_EXPORT hipError_t hipIpcCloseMemHandle(void* ptr) {
  HIPGRAFT_GUARD;
  if (guard.watched() && capture::in_arena(ptr)) return runtime::answer(hipErrorInvalidValue);
  return guard.real().hipIpcCloseMemHandle(ptr);
}

HIPGRAFT_EXPORT hipError_t hipDeviceReset(void) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipDeviceReset();
  if (guard.ours() && result == hipSuccess) capture::forget_device(runtime::current_device());
  return result;
}

HIPGRAFT_EXPORT hipError_t hipDeviceGraphMemTrim(int device) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipDeviceGraphMemTrim(device);
  if (guard.ours() && result == hipSuccess) capture::trim();
  return result;
}
