// The dialect that the device code of the test programs is written in. One source compiles
//  - as HIP device code with clang alone, without any ROCm header,
//  - as CUDA C++ with nvcc,
//  - as host C++, where each kernel becomes a loop over its work-items: its *twin*, which the
//    software agent runs in the kernel's place.
// A twin runs its work-items one after another, so kernels must not use barriers or shared memory.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define APPS_KERNEL __global__
#define APPS_DEVICE __device__
#elif defined(__HIP__)
#define APPS_KERNEL __attribute__((global))
#define APPS_DEVICE __attribute__((device))
#else
#define APPS_KERNEL
#define APPS_DEVICE
#define APPS_HOST_TWINS 1
#endif

namespace apps {

struct Index3 {
  std::uint32_t x;
  std::uint32_t y;
  std::uint32_t z;
};

#if defined(APPS_HOST_TWINS)

struct WorkItem {
  Index3 thread;
  Index3 block;
  Index3 block_size;
};

// Each queue of the agent runs twins on a thread of its own. Initial-exec because the accesses
// stand in the innermost loops, where a call to find the variable would dominate.
inline thread_local WorkItem current_work_item __attribute__((tls_model("initial-exec")));

inline Index3 thread_index() { return current_work_item.thread; }
inline Index3 block_index() { return current_work_item.block; }
inline Index3 block_size() { return current_work_item.block_size; }

#elif defined(__CUDACC__)

APPS_DEVICE inline Index3 thread_index() { return {threadIdx.x, threadIdx.y, threadIdx.z}; }
APPS_DEVICE inline Index3 block_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
APPS_DEVICE inline Index3 block_size() { return {blockDim.x, blockDim.y, blockDim.z}; }

#else

APPS_DEVICE inline Index3 thread_index() {
  return {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
          __builtin_amdgcn_workitem_id_z()};
}
APPS_DEVICE inline Index3 block_index() {
  return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
          __builtin_amdgcn_workgroup_id_z()};
}
APPS_DEVICE inline Index3 block_size() {
  return {__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
          __builtin_amdgcn_workgroup_size_z()};
}

#endif

APPS_DEVICE inline std::uint32_t global_index() {
  return block_index().x * block_size().x + thread_index().x;
}

}  // namespace apps
