// What hipgraft adds to a graph launch: one exec, launched by turns through hipgraft's hipGraphLaunch and
// through the runtime's own, in one process. Run with libhipgraft.so preloaded.
//
//   LD_PRELOAD=libhipgraft.so launch-7.2 [ROUNDS]
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "hip_support.h"
#include "runtime/loaded_objects.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPairs = 24;
constexpr int kNodes = 234;
constexpr std::size_t kBytes = 4096;

// The function in the runtime itself, whoever has put himself before it.
template <class Function>
Function* genuine(const char* name, Function*) {
  for (const auto& object : hipgraft::runtime::loaded_objects()) {
    if (std::string_view(object.file_name()).starts_with("libamdhip64")) {
      return reinterpret_cast<Function*>(object.defined(name));
    }
  }
  return nullptr;
}

// A chain of memsets with allocations and frees between.
apps::Graph capture(hipStream_t stream) {
  HIP_CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  void* block = nullptr;
  for (int node = 0; node < kNodes; ++node) {
    if (node % (kNodes / kPairs) == 0 && node / (kNodes / kPairs) < kPairs) {
      if (block != nullptr) HIP_CHECK(hipFreeAsync(block, stream));
      HIP_CHECK(hipMallocAsync(&block, kBytes, stream));
    }
    HIP_CHECK(hipMemsetAsync(block, node, kBytes, stream));
  }
  HIP_CHECK(hipFreeAsync(block, stream));
  hipGraph_t graph = nullptr;
  HIP_CHECK(hipStreamEndCapture(stream, &graph));
  return apps::Graph(graph);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class Launch>
double timed(Launch launch, hipGraphExec_t exec, hipStream_t stream) {
  const auto begun = Clock::now();
  HIP_CHECK(launch(exec, stream));
  const std::chrono::duration<double, std::micro> took = Clock::now() - begun;
  HIP_CHECK(hipStreamSynchronize(stream));
  return took.count();
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 4000;
  auto* const direct = genuine("hipGraphLaunch", &hipGraphLaunch);
  if (direct == nullptr || rounds < 1) return 2;
  const apps::Stream stream = apps::make_non_blocking_stream();
  const apps::GraphExec exec = apps::instantiate(capture(stream.get()));
  std::vector<double> through;
  std::vector<double> past;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    // By turns, so that neither profits from going second.
    double times[2] = {};
    for (const int which : {round % 2, 1 - round % 2}) {
      times[which] = which == 0 ? timed(hipGraphLaunch, exec.get(), stream.get())
                                : timed(direct, exec.get(), stream.get());
    }
    through.push_back(times[0]);
    past.push_back(times[1]);
    ratios.push_back(times[0] / times[1]);
  }
  std::printf("through_us_median %.3f\npast_us_median %.3f\nratio_of_medians %.4f\n",
              median(through), median(past), median(through) / median(past));
  std::printf("median_of_ratios %.4f\n", median(ratios));
  return 0;
}
