// A replay with hipgraft against the hand-written one, by turns in one process: a graph whose
// temporaries hipgraft serves, launched through hipgraft, and the same graph with temporaries
// allocated in advance, launched by the runtime's own hipGraphLaunch. Run with libhipgraft.so
// preloaded.
//
//   LD_PRELOAD=libhipgraft.so launch-7.2 [ROUNDS]
#include <hip/hip_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "genuine.h"
#include "hip_support.h"
#include "statistics.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPairs = 24;
constexpr int kNodes = 234;
constexpr std::size_t kBytes = 4096;

// A chain of memsets on temporaries: those of `owned` if there are any, else allocated and freed by
// the stream.
apps::Graph capture(hipStream_t stream, const std::vector<apps::DeviceMemory>& owned) {
  constexpr int kEach = kNodes / kPairs;
  HIP_CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  void* block = nullptr;
  for (int node = 0; node < kNodes; ++node) {
    const int pair = node / kEach;
    if (node % kEach == 0 && pair < kPairs) {
      if (block != nullptr && owned.empty()) HIP_CHECK(hipFreeAsync(block, stream));
      if (owned.empty()) {
        HIP_CHECK(hipMallocAsync(&block, kBytes, stream));
      } else {
        block = owned[static_cast<std::size_t>(pair)].get();
      }
    }
    HIP_CHECK(hipMemsetAsync(block, node, kBytes, stream));
  }
  if (owned.empty()) HIP_CHECK(hipFreeAsync(block, stream));
  hipGraph_t graph = nullptr;
  HIP_CHECK(hipStreamEndCapture(stream, &graph));
  return apps::Graph(graph);
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
  auto* const direct = bench::genuine("hipGraphLaunch", &hipGraphLaunch);
  if (direct == nullptr || rounds < 1) return 2;
  const apps::Stream stream = apps::make_non_blocking_stream();
  std::vector<apps::DeviceMemory> owned;
  for (int pair = 0; pair < kPairs; ++pair) owned.push_back(apps::allocate_device_memory(kBytes));
  const apps::GraphExec served = apps::instantiate(capture(stream.get(), {}));
  const apps::GraphExec by_hand = apps::instantiate(capture(stream.get(), owned));
  std::vector<double> through;
  std::vector<double> past;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    // By turns, so that neither profits from going second.
    double times[2] = {};
    for (const int which : {round % 2, 1 - round % 2}) {
      times[which] = which == 0 ? timed(hipGraphLaunch, served.get(), stream.get())
                                : timed(direct, by_hand.get(), stream.get());
    }
    through.push_back(times[0]);
    past.push_back(times[1]);
    ratios.push_back(times[0] / times[1]);
  }
  std::printf("hipgraft_us_median %.3f\nby_hand_us_median %.3f\nratio_of_medians %.4f\n",
              bench::median(through), bench::median(past),
              bench::median(through) / bench::median(past));
  std::printf("median_of_ratios %.4f\n", bench::median(ratios));
  return 0;
}
