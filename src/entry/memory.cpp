#include "capture/allocation.h"
#include "capture/beside.h"
#include "capture/host_blocks.h"
#include "capture/pools.h"
#include "entry/guard.h"
#include "runtime/calls.h"
#include "runtime/last_error.h"

using namespace hipgraft;
using namespace hipgraft::abi;

namespace {

// Idle arena memory is nobody's: when the device is full it goes back, and the call is tried again.
template <class Call>
hipError_t allocate(const entry::Guard& guard, Call call) {
  const hipError_t result = call();
  const bool full = result == hipErrorOutOfMemory && guard.ours();
  return full && capture::trim(capture::Trim::all) ? call() : result;
}

// The same for memory that a capture may free again.
template <class Call, class Bytes>
hipError_t allocate_block(const entry::Guard& guard, void* const* ptr, Bytes bytes, Call call) {
  const hipError_t result = allocate(guard, call);
  if (guard.ours() && result == hipSuccess) capture::host_block_allocated(*ptr, bytes());
  return result;
}

// Where a capture may be in the way of the native call: asked again if one has begun meanwhile.
template <class Beside, class Native>
hipError_t besides_captures(Beside beside, Native native) {
  if (const capture::Answer answer = beside()) return *answer;
  const hipError_t result = native();
  if (result != hipErrorStreamCaptureUnsupported) return result;
  return beside().value_or(result);
}

}  // namespace

HIPGRAFT_EXPORT hipError_t hipMalloc(void** ptr, size_t size) {
  HIPGRAFT_GUARD;
  return allocate_block(
      guard, ptr, [&] { return size; }, [&] { return guard.real().hipMalloc(ptr, size); });
}

HIPGRAFT_EXPORT hipError_t hipExtMallocWithFlags(void** ptr, size_t size, unsigned int flags) {
  HIPGRAFT_GUARD;
  const auto call = [&] { return guard.real().hipExtMallocWithFlags(ptr, size, flags); };
  // Other kinds of memory are not what a later request of the capture asks for.
  if (flags != kDeviceMallocDefault) return allocate(guard, call);
  return allocate_block(
      guard, ptr, [&] { return size; }, call);
}

HIPGRAFT_EXPORT hipError_t hipMallocPitch(void** ptr, size_t* pitch, size_t width, size_t height) {
  HIPGRAFT_GUARD;
  return allocate_block(
      guard, ptr, [&] { return *pitch * height; },
      [&] { return guard.real().hipMallocPitch(ptr, pitch, width, height); });
}

HIPGRAFT_EXPORT hipError_t hipMemAllocPitch(hipDeviceptr_t* ptr, size_t* pitch, size_t width,
                                            size_t height, unsigned int elementSize) {
  HIPGRAFT_GUARD;
  return allocate_block(
      guard, ptr, [&] { return *pitch * height; },
      [&] { return guard.real().hipMemAllocPitch(ptr, pitch, width, height, elementSize); });
}

HIPGRAFT_EXPORT hipError_t hipMalloc3D(hipPitchedPtr* ptr, hipExtent extent) {
  HIPGRAFT_GUARD;
  return allocate_block(
      guard, &ptr->ptr, [&] { return ptr->pitch * extent.height * extent.depth; },
      [&] { return guard.real().hipMalloc3D(ptr, extent); });
}

HIPGRAFT_EXPORT hipError_t hipMallocManaged(void** ptr, size_t size, unsigned int flags) {
  HIPGRAFT_GUARD;
  return allocate(guard, [&] { return guard.real().hipMallocManaged(ptr, size, flags); });
}

HIPGRAFT_EXPORT hipError_t hipMallocAsync(void** ptr, size_t size, hipStream_t stream) {
  HIPGRAFT_GUARD;
  if (!guard.ours()) return guard.real().hipMallocAsync(ptr, size, stream);
  const capture::Answer served =
      capture::allocate(HIPGRAFT_THIS_CALL(hipMallocAsync), ptr, size, stream, nullptr);
  if (served) return *served;
  const auto beside = [&] { return capture::allocate_beside(ptr, size, stream); };
  const auto native = [&] { return guard.real().hipMallocAsync(ptr, size, stream); };
  return allocate(guard, [&] { return besides_captures(beside, native); });
}

HIPGRAFT_EXPORT hipError_t hipMallocFromPoolAsync(void** ptr, size_t size, hipMemPool_t pool,
                                                  hipStream_t stream) {
  HIPGRAFT_GUARD;
  const auto call = [&] { return guard.real().hipMallocFromPoolAsync(ptr, size, pool, stream); };
  if (!guard.ours() || pool == nullptr) return call();
  const capture::Answer served =
      capture::allocate(HIPGRAFT_THIS_CALL(hipMallocFromPoolAsync), ptr, size, stream, pool);
  return served ? *served : allocate(guard, call);
}

// The frees look at the pointer whoever calls: also a callback that runs inside a call into the
// runtime may free a block, and no arena pointer may ever reach the runtime.

HIPGRAFT_EXPORT hipError_t hipFreeAsync(void* ptr, hipStream_t stream) {
  HIPGRAFT_GUARD;
  const auto native = [&] { return guard.real().hipFreeAsync(ptr, stream); };
  if (!guard.watched()) return native();
  if (const capture::Answer freed = capture::free_on_stream(ptr, stream)) return *freed;
  return besides_captures([&] { return capture::free_beside(ptr, stream); }, native);
}

HIPGRAFT_EXPORT hipError_t hipFree(void* ptr) {
  HIPGRAFT_GUARD;
  capture::Answer freed;
  if (guard.watched()) freed = capture::free_now(ptr);
  if (freed) return *freed;
  const hipError_t result = guard.real().hipFree(ptr);
  // It has waited for the device: what is no longer used can go at no further cost.
  if (guard.ours() && result == hipSuccess) capture::trim(capture::Trim::unused);
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
  if (guard.ours() && result == hipSuccess) capture::trim(capture::Trim::all);
  return result;
}

// Idle arena memory is free to whoever needs it: see allocate().
HIPGRAFT_EXPORT hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipMemGetInfo(free, total);
  if (guard.ours() && result == hipSuccess && free != nullptr) {
    *free += capture::idle_bytes(runtime::current_device());
  }
  return result;
}

HIPGRAFT_EXPORT hipError_t hipMemPoolCreate(hipMemPool_t* pool, const hipMemPoolProps* properties) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipMemPoolCreate(pool, properties);
  if (guard.ours() && result == hipSuccess) capture::pool_made(*pool, *properties);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipMemPoolDestroy(hipMemPool_t pool) {
  HIPGRAFT_GUARD;
  if (guard.ours()) capture::pool_destroyed(pool);
  return guard.real().hipMemPoolDestroy(pool);
}
