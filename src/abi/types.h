// Our own declarations of the HIP types that hipgraft uses, under the names of HIP 7.2, so that
// building it needs no ROCm. tests/loader/abi_check.cpp asserts them against AMD's headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hipgraft::abi {

enum hipError_t : int {
  hipSuccess = 0,
  hipErrorInvalidValue = 1,
  hipErrorOutOfMemory = 2,
  hipErrorNotInitialized = 3,
  hipErrorInvalidHandle = 400,
  hipErrorIllegalState = 401,
  hipErrorHostMemoryNotRegistered = 713,
  hipErrorNotSupported = 801,
  hipErrorStreamCaptureUnsupported = 900,
  hipErrorStreamCaptureInvalidated = 901,
  hipErrorStreamCaptureUnmatched = 903,
  hipErrorStreamCaptureUnjoined = 904,
  hipErrorStreamCaptureWrongThread = 908,
};

enum hipStreamCaptureMode : int {
  hipStreamCaptureModeGlobal = 0,
  hipStreamCaptureModeThreadLocal = 1,
  hipStreamCaptureModeRelaxed = 2,
};

enum hipStreamCaptureStatus : int {
  hipStreamCaptureStatusNone = 0,
  hipStreamCaptureStatusActive = 1,
  hipStreamCaptureStatusInvalidated = 2,
};

enum hipStreamUpdateCaptureDependenciesFlags : unsigned {
  hipStreamAddCaptureDependencies = 0,
  hipStreamSetCaptureDependencies = 1,
};

enum hipGraphNodeType : int {
  hipGraphNodeTypeKernel = 0,
  hipGraphNodeTypeMemcpy = 1,
  hipGraphNodeTypeMemset = 2,
  hipGraphNodeTypeHost = 3,
  hipGraphNodeTypeGraph = 4,
  hipGraphNodeTypeEmpty = 5,
  hipGraphNodeTypeWaitEvent = 6,
  hipGraphNodeTypeEventRecord = 7,
  hipGraphNodeTypeMemAlloc = 10,
  hipGraphNodeTypeMemFree = 11,
};

// Of these, the ones that hipgraft corrects.
enum hipPointer_attribute : int {
  HIP_POINTER_ATTRIBUTE_BUFFER_ID = 7,
  HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE = 10,
  HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
  HIP_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
};

enum hipGraphMemAttributeType : int {
  hipGraphMemAttrUsedMemCurrent = 0,
  hipGraphMemAttrUsedMemHigh = 1,
  hipGraphMemAttrReservedMemCurrent = 2,
  hipGraphMemAttrReservedMemHigh = 3,
};

enum hipMemRangeHandleType : int {};
enum hipDriverProcAddressQueryResult : int {};
enum hipDriverEntryPointQueryResult : int {};

enum hipMemcpyKind : int {};

enum hipGraphExecUpdateResult : int {
  hipGraphExecUpdateSuccess = 0,
};

// Macros in AMD's headers.
constexpr unsigned kEventDisableTiming = 0x2;   // hipEventDisableTiming
constexpr unsigned kDeviceMallocDefault = 0x0;  // hipDeviceMallocDefault
constexpr unsigned kStreamNonBlocking = 0x1;    // hipStreamNonBlocking

constexpr unsigned long long kGraphInstantiateFlagUpload = 2;  // hipGraphInstantiateFlagUpload

// Opaque handles. Small integers as streams are special: 0 the null stream, 1 the legacy stream, 2
// the calling thread's own.
using hipStream_t = struct ihipStream_t*;
using hipEvent_t = struct ihipEvent_t*;
using hipGraph_t = struct ihipGraph*;
using hipGraphNode_t = struct hipGraphNode*;
using hipGraphExec_t = struct hipGraphExec*;
using hipMemPool_t = struct ihipMemPoolHandle_t*;
using hipCtx_t = struct ihipCtx_t*;
using hipUserObject_t = struct hipUserObject*;
using hipFunction_t = struct ihipModuleSymbol_t*;
using hipDevice_t = int;
using hipDeviceptr_t = void*;
using hipMemGenericAllocationHandle_t = struct ihipMemGenericAllocationHandle*;

struct dim3 {
  std::uint32_t x;
  std::uint32_t y;
  std::uint32_t z;
};

struct hipExtent {
  std::size_t width;  // bytes
  std::size_t height;
  std::size_t depth;
};

struct hipPitchedPtr {
  void* ptr;
  std::size_t pitch;  // bytes
  std::size_t xsize;
  std::size_t ysize;
};

struct hipMemLocation {
  int type;
  int id;  // of the device
};

struct hipMemPoolProps {
  int allocType;
  unsigned handleTypes;  // that allocations can be exported by; 0: none
  hipMemLocation location;
  void* win32SecurityAttributes;
  std::size_t maxSize;  // reserved in 5.7
  unsigned char reserved[56];
};

struct hipKernelNodeParams {
  dim3 blockDim;
  void** extra;
  void* func;
  dim3 gridDim;
  void** kernelParams;
  unsigned int sharedMemBytes;
};

struct hipGraphInstantiateParams {
  hipGraphNode_t errNode_out;
  unsigned long long flags;
  int result_out;
  hipStream_t uploadStream;
};

// Passed on by pointer only.
struct hipGraphEdgeData;
struct hipIpcMemHandle_t;
struct hipMemPoolPtrExportData;
struct hipMemcpy3DParms;
struct HIP_MEMCPY3D;
struct hipMemsetParams;
struct hipDrvMemsetParams;  // HIP_MEMSET_NODE_PARAMS in 6.4, hipMemsetParams in 7.2
struct hipHostNodeParams;
struct hipExternalSemaphoreSignalNodeParams;
struct hipExternalSemaphoreWaitNodeParams;
struct hipBatchMemOpNodeParams;

// The parameters of a node of any type: of these, only a child graph and freed memory matter here.
struct hipGraphNodeParams {
  hipGraphNodeType type;
  int reserved0[3];
  union {
    long long reserved1[29];
    hipGraph_t child_graph;  // graph.graph in AMD's header
    void* freed;             // free.dptr
  };
  long long reserved2;
};

}  // namespace hipgraft::abi
