// Compiled, not run: our declarations of HIP's types and functions against AMD's headers.
#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <tuple>
#include <type_traits>

#include "abi/functions.h"

#if HIP_VERSION_MAJOR < 6
// Not in 5.7's headers, and so null in its function table.
struct hipGraphEdgeData;
struct hipGraphInstantiateParams;
hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph,
                                        const hipGraphNode_t* dependencies,
                                        const hipGraphEdgeData* dependencyData,
                                        size_t numDependencies, hipStreamCaptureMode mode);
hipError_t hipGraphInstantiateWithParams(hipGraphExec_t* exec, hipGraph_t graph,
                                         hipGraphInstantiateParams* params);
struct hipGraphNodeParams;
hipError_t hipGraphAddNode(hipGraphNode_t* node, hipGraph_t graph,
                           const hipGraphNode_t* dependencies, size_t numDependencies,
                           hipGraphNodeParams* params);
hipError_t hipGraphNodeSetParams(hipGraphNode_t node, hipGraphNodeParams* params);
hipError_t hipGraphExecNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                     hipGraphNodeParams* params);
hipError_t hipDrvGraphAddMemFreeNode(hipGraphNode_t* node, hipGraph_t graph,
                                     const hipGraphNode_t* dependencies, size_t numDependencies,
                                     hipDeviceptr_t ptr);
enum hipDriverProcAddressQueryResult : int {};
hipError_t hipGetProcAddress(const char* symbol, void** function, int hipVersion, uint64_t flags,
                             hipDriverProcAddressQueryResult* status);
hipError_t hipDrvGraphAddMemFreeNode(hipGraphNode_t* node, hipGraph_t graph,
                                     const hipGraphNode_t* dependencies, size_t numDependencies,
                                     hipDeviceptr_t ptr);
struct hipBatchMemOpNodeParams;
hipError_t hipGraphExecBatchMemOpNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                               const hipBatchMemOpNodeParams* params);
hipError_t hipDrvGraphExecMemcpyNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                              const HIP_MEMCPY3D* params, hipCtx_t context);
hipError_t hipDrvGraphExecMemsetNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                              const hipMemsetParams* params, hipCtx_t context);
#endif
#if HIP_VERSION < 60500000
enum hipMemRangeHandleType : int {};
hipError_t hipMemGetHandleForAddressRange(void* handle, hipDeviceptr_t ptr, size_t size,
                                          hipMemRangeHandleType handleType,
                                          unsigned long long flags);
#endif
#if HIP_VERSION_MAJOR == 6
using hipDrvMemsetParams = HIP_MEMSET_NODE_PARAMS;
#else
using hipDrvMemsetParams = hipMemsetParams;
#endif
#if HIP_VERSION < 70100000
enum hipDriverEntryPointQueryResult : int {};
hipError_t hipGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                  hipDriverEntryPointQueryResult* status);
hipError_t hipGetDriverEntryPoint_spt(const char* symbol, void** function, unsigned long long flags,
                                      hipDriverEntryPointQueryResult* status);
#endif

namespace {

namespace ours = hipgraft::abi;

// How a value travels in a call: as a pointer, or as so many bytes of an integer or of a struct.
template <class A, class B>
constexpr bool travels_alike() {
  if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) {
    return std::is_pointer_v<A> && std::is_pointer_v<B>;
  } else {
    return sizeof(A) == sizeof(B) && std::is_class_v<A> == std::is_class_v<B> &&
           std::is_floating_point_v<A> == std::is_floating_point_v<B>;
  }
}

template <class A, class B>
struct SameShape : std::false_type {};

template <class RA, class RB, class... A, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameShape<RA(A...), RB(B...)>
    : std::bool_constant<travels_alike<RA, RB>() && (travels_alike<A, B>() && ...)> {
};

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

// A row of functions.def, read with AMD's types, must be a function of AMD's header to the letter;
// and with our types it must have the same shape.
#define CHECK_FUNCTION(name, result, parameters)                         \
  using name##_amd = result parameters;                                  \
  [[maybe_unused]] constexpr name##_amd* const name##_address = &::name; \
  static_assert(SameShape<name##_amd, ours::name##_fn>::value, #name);
#define HIPGRAFT_INTERCEPT CHECK_FUNCTION
#define HIPGRAFT_CALL CHECK_FUNCTION
#include "abi/functions.def"
#undef HIPGRAFT_CALL
#undef HIPGRAFT_INTERCEPT

#define CHECK_VALUE(name) \
  static_assert(static_cast<long long>(::name) == static_cast<long long>(ours::name), #name)

CHECK_VALUE(hipSuccess);
CHECK_VALUE(hipErrorInvalidValue);
CHECK_VALUE(hipErrorOutOfMemory);
CHECK_VALUE(hipErrorNotInitialized);
CHECK_VALUE(hipErrorInvalidHandle);
CHECK_VALUE(hipErrorIllegalState);
CHECK_VALUE(hipErrorHostMemoryNotRegistered);
CHECK_VALUE(hipErrorNotSupported);
CHECK_VALUE(hipErrorStreamCaptureUnsupported);
CHECK_VALUE(hipErrorStreamCaptureInvalidated);
CHECK_VALUE(hipErrorStreamCaptureUnmatched);
CHECK_VALUE(hipErrorStreamCaptureUnjoined);
CHECK_VALUE(hipErrorStreamCaptureWrongThread);
CHECK_VALUE(hipStreamCaptureModeGlobal);
CHECK_VALUE(hipStreamCaptureModeThreadLocal);
CHECK_VALUE(hipStreamCaptureModeRelaxed);
CHECK_VALUE(hipStreamCaptureStatusNone);
CHECK_VALUE(hipStreamCaptureStatusActive);
CHECK_VALUE(hipStreamCaptureStatusInvalidated);
CHECK_VALUE(hipStreamAddCaptureDependencies);
CHECK_VALUE(hipStreamSetCaptureDependencies);
CHECK_VALUE(hipGraphNodeTypeKernel);
CHECK_VALUE(hipGraphNodeTypeMemcpy);
CHECK_VALUE(hipGraphNodeTypeMemset);
CHECK_VALUE(hipGraphNodeTypeHost);
CHECK_VALUE(hipGraphNodeTypeGraph);
CHECK_VALUE(hipGraphNodeTypeEmpty);
CHECK_VALUE(hipGraphNodeTypeWaitEvent);
CHECK_VALUE(hipGraphNodeTypeEventRecord);
CHECK_VALUE(hipGraphNodeTypeMemAlloc);
CHECK_VALUE(hipGraphNodeTypeMemFree);
CHECK_VALUE(hipGraphExecUpdateSuccess);
CHECK_VALUE(HIP_POINTER_ATTRIBUTE_BUFFER_ID);
CHECK_VALUE(HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE);
CHECK_VALUE(HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR);
CHECK_VALUE(HIP_POINTER_ATTRIBUTE_RANGE_SIZE);
CHECK_VALUE(hipGraphMemAttrUsedMemCurrent);
CHECK_VALUE(hipGraphMemAttrUsedMemHigh);
CHECK_VALUE(hipGraphMemAttrReservedMemCurrent);
CHECK_VALUE(hipGraphMemAttrReservedMemHigh);
static_assert(hipEventDisableTiming == ours::kEventDisableTiming);
static_assert(hipDeviceMallocDefault == ours::kDeviceMallocDefault);
static_assert(hipGraphInstantiateFlagUpload == ours::kGraphInstantiateFlagUpload);
static_assert(hipStreamNonBlocking == ours::kStreamNonBlocking);

#define CHECK_MEMBER(type, member)                                          \
  static_assert(offsetof(::type, member) == offsetof(ours::type, member) && \
                    sizeof(::type::member) == sizeof(ours::type::member),   \
                #type "::" #member)

#if HIP_VERSION_MAJOR >= 6
static_assert(sizeof(::hipGraphNodeParams) == sizeof(ours::hipGraphNodeParams));
CHECK_MEMBER(hipGraphInstantiateParams, flags);
CHECK_MEMBER(hipGraphNodeParams, type);
static_assert(offsetof(::hipGraphNodeParams, graph) ==
              offsetof(ours::hipGraphNodeParams, child_graph));
static_assert(offsetof(::hipGraphNodeParams, free.dptr) ==
              offsetof(ours::hipGraphNodeParams, freed));
#endif
static_assert(sizeof(::hipExtent) == sizeof(ours::hipExtent));
CHECK_MEMBER(hipExtent, width);
CHECK_MEMBER(hipExtent, height);
CHECK_MEMBER(hipExtent, depth);
static_assert(sizeof(::hipPitchedPtr) == sizeof(ours::hipPitchedPtr));
CHECK_MEMBER(hipPitchedPtr, ptr);
CHECK_MEMBER(hipPitchedPtr, pitch);
static_assert(sizeof(::hipMemPoolProps) == sizeof(ours::hipMemPoolProps));
CHECK_MEMBER(hipMemPoolProps, handleTypes);
CHECK_MEMBER(hipMemPoolProps, location);
CHECK_MEMBER(hipMemLocation, id);
static_assert(sizeof(::dim3) == sizeof(ours::dim3));
static_assert(sizeof(::hipKernelNodeParams) == sizeof(ours::hipKernelNodeParams));
CHECK_MEMBER(hipKernelNodeParams, blockDim);
CHECK_MEMBER(hipKernelNodeParams, extra);
CHECK_MEMBER(hipKernelNodeParams, func);
CHECK_MEMBER(hipKernelNodeParams, gridDim);
CHECK_MEMBER(hipKernelNodeParams, kernelParams);
CHECK_MEMBER(hipKernelNodeParams, sharedMemBytes);

}  // namespace
