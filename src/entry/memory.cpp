#include "capture/allocation.h"
#include "entry/guard.h"
#include "runtime/calls.h"
#include "runtime/last_error.h"

using namespace hipgraft;
using namespace hipgraft::abi;
using runtime::real;

HIPGRAFT_EXPORT hipError_t hipMallocAsync(void** ptr, size_t size, hipStream_t stream) {
  const entry::Guard guard;
  capture::Answer served;
  if (guard.ours()) {
    served = capture::allocate(HIPGRAFT_THIS_CALL(hipMallocAsync), ptr, size, stream, nullptr);
  }
  return served ? *served : real().hipMallocAsync(ptr, size, stream);
}

HIPGRAFT_EXPORT hipError_t hipMallocFromPoolAsync(void** ptr, size_t size, hipMemPool_t pool,
                                                  hipStream_t stream) {
  const entry::Guard guard;
  capture::Answer served;
  if (guard.ours()) {
    served = capture::allocate(HIPGRAFT_THIS_CALL(hipMallocFromPoolAsync), ptr, size, stream, pool);
  }
  return served ? *served : real().hipMallocFromPoolAsync(ptr, size, pool, stream);
}

// The frees look at the pointer whoever calls: also a callback that runs inside a call into the
// runtime may free a block, and no arena pointer may ever reach the runtime.

HIPGRAFT_EXPORT hipError_t hipFreeAsync(void* ptr, hipStream_t stream) {
  const entry::Guard guard;
  capture::Answer freed;
  if (entry::active()) freed = capture::free_on_stream(ptr, stream);
  return freed ? *freed : real().hipFreeAsync(ptr, stream);
}

HIPGRAFT_EXPORT hipError_t hipFree(void* ptr) {
  const entry::Guard guard;
  capture::Answer freed;
  if (entry::active()) freed = capture::free_now(ptr);
  if (freed) return *freed;
  const hipError_t result = real().hipFree(ptr);
  // It has waited for the device: what is idle can go at no further cost.
  if (guard.ours() && result == hipSuccess) capture::trim();
  return result;
}

HIPGRAFT_EXPORT hipError_t hipHostFree(void* ptr) {
  const entry::Guard guard;
  capture::Answer freed;
  if (entry::active()) freed = capture::free_now(ptr);
  return freed ? *freed : real().hipHostFree(ptr);
}

HIPGRAFT_EXPORT hipError_t hipFreeHost(void* ptr) {
  const entry::Guard guard;
  capture::Answer freed;
  if (entry::active()) freed = capture::free_now(ptr);
  return freed ? *freed : real().hipFreeHost(ptr);
}

// Both drop the memory object around the pointer without looking at the offset.

HIPGRAFT_EXPORT hipError_t hipHostUnregister(void* ptr) {
  const entry::Guard guard;
  if (entry::active() && capture::in_arena(ptr)) {
    return runtime::answer(hipErrorHostMemoryNotRegistered);
  }
  return real().hipHostUnregister(ptr);
}

HIPGRAFT_EXPORT hipError_t hipIpcCloseMemHandle(void* ptr) {
  const entry::Guard guard;
  if (entry::active() && capture::in_arena(ptr)) return runtime::answer(hipErrorInvalidValue);
  return real().hipIpcCloseMemHandle(ptr);
}

HIPGRAFT_EXPORT hipError_t hipDeviceReset(void) {
  const entry::Guard guard;
  if (guard.ours()) capture::forget_device(runtime::current_device());
  return real().hipDeviceReset();
}

HIPGRAFT_EXPORT hipError_t hipDevicePrimaryCtxReset(hipDevice_t device) {
  const entry::Guard guard;
  if (guard.ours()) capture::forget_device(device);
  return real().hipDevicePrimaryCtxReset(device);
}

HIPGRAFT_EXPORT hipError_t hipDeviceGraphMemTrim(int device) {
  const entry::Guard guard;
  const hipError_t result = real().hipDeviceGraphMemTrim(device);
  if (guard.ours() && result == hipSuccess) capture::trim();
  return result;
}
