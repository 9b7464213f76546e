// What the self-tests of the agent share: checks, kernels, owners of HIP objects, child processes.
#pragma once

#include <doctest/doctest.h>
#include <hip/hip_runtime.h>
#include <hip/hiprtc.h>

#include <cstdint>
#include <string>
#include <vector>

#include "softagent.h"

// Also used in child processes, where no test case runs: nothing of doctest unless it failed.
void check_hip(hipError_t error, const char* call);
#define HIP(call) check_hip(call, #call)

// The kernels of selftest_support.cpp, compiled.
const std::vector<char>& device_code();

// Of the first device, loaded once.
hipModule_t module();
hipFunction_t function(const char* name);

template <class... Arguments>
void launch(hipFunction_t kernel, unsigned blocks, unsigned threads, hipStream_t stream,
            Arguments... arguments) {
  void* pointers[] = {&arguments...};
  HIP(hipModuleLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, pointers, nullptr));
}

struct Stream {
  explicit Stream(unsigned flags = hipStreamNonBlocking) {
    HIP(hipStreamCreateWithFlags(&handle, flags));
  }
  ~Stream() { (void)hipStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator hipStream_t() const { return handle; }
  void sync() const { HIP(hipStreamSynchronize(handle)); }
  hipStream_t handle;
};

template <class Element>
struct Device {
  explicit Device(size_t count) : size(count) {
    HIP(hipMalloc(reinterpret_cast<void**>(&data), count * sizeof(Element)));
  }
  ~Device() { (void)hipFree(data); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  void write(const std::vector<Element>& from) {
    HIP(hipMemcpy(data, from.data(), from.size() * sizeof(Element), hipMemcpyHostToDevice));
  }
  std::vector<Element> read() const {
    std::vector<Element> result(size);
    HIP(hipMemcpy(result.data(), data, size * sizeof(Element), hipMemcpyDeviceToHost));
    return result;
  }
  size_t size;
  Element* data = nullptr;
};

struct Graph {
  Graph() = default;
  explicit Graph(hipGraph_t captured) : graph(captured) {}
  ~Graph() {
    if (exec) (void)hipGraphExecDestroy(exec);
    if (graph) (void)hipGraphDestroy(graph);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void instantiate() { HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0)); }
  void launch(hipStream_t stream) const { HIP(hipGraphLaunch(exec, stream)); }
  size_t nodes() const {
    size_t number = 0;
    HIP(hipGraphGetNodes(graph, nullptr, &number));
    return number;
  }
  size_t edges() const {
    size_t number = 0;
    HIP(hipGraphGetEdges(graph, nullptr, nullptr, &number));
    return number;
  }
  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
};

template <class Work>
hipGraph_t capture(hipStream_t stream, Work work,
                   hipStreamCaptureMode mode = hipStreamCaptureModeGlobal) {
  HIP(hipStreamBeginCapture(stream, mode));
  work();
  hipGraph_t graph = nullptr;
  HIP(hipStreamEndCapture(stream, &graph));
  return graph;
}

// Runs this program again with one argument; returns the wait status.
struct Child {
  int status;
  std::string errors;  // what it wrote to stderr
};
Child run_child_and_listen(const char* argument, std::vector<std::string> extra_environment = {});
int run_child(const char* argument, std::vector<std::string> extra_environment = {});

// What a child process may be asked to do; the result is its exit status.
int export_or_import_memory(const std::string& role);
int fault(const std::string& role);
