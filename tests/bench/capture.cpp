// What hipMallocAsync and hipFreeAsync cost in a capture with hipgraft, against the runtime's own,
// by turns in one process. Run with libhipgraft.so preloaded.
//
//   LD_PRELOAD=libhipgraft.so capture-7.2 [ROUNDS]
#include <hip/hip_runtime_api.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "genuine.h"
#include "hip_support.h"
#include "statistics.h"

namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

// The calls that a capture makes: those that the program is linked to, or the runtime's own.
struct Calls {
  decltype(&hipStreamBeginCapture) begin = hipStreamBeginCapture;
  decltype(&hipStreamEndCapture) end = hipStreamEndCapture;
  hipError_t (*allocate)(void**, std::size_t, hipStream_t) = hipMallocAsync;
  decltype(&hipFreeAsync) free = hipFreeAsync;
  decltype(&hipGraphDestroy) destroy = hipGraphDestroy;

  bool complete() const { return begin && end && allocate && free && destroy; }
};

Calls genuine_calls() {
  Calls calls;
  calls.begin = bench::genuine("hipStreamBeginCapture", calls.begin);
  calls.end = bench::genuine("hipStreamEndCapture", calls.end);
  calls.allocate = bench::genuine("hipMallocAsync", calls.allocate);
  calls.free = bench::genuine("hipFreeAsync", calls.free);
  calls.destroy = bench::genuine("hipGraphDestroy", calls.destroy);
  return calls;
}

// Microseconds of one hipMallocAsync and one hipFreeAsync: means over a capture of blocks that live
// while a few others come and go, with a memset on each.
struct Cost {
  double allocate = 0;
  double free = 0;
};

constexpr int kBlocks = 200;
constexpr std::size_t kAlive = 8;

Cost capture(const Calls& calls, hipStream_t stream) {
  Microseconds allocating{};
  Microseconds freeing{};
  std::array<void*, kAlive> alive{};
  HIP_CHECK(calls.begin(stream, hipStreamCaptureModeRelaxed));
  for (int i = 0; i < kBlocks; ++i) {
    void*& block = alive.at(static_cast<std::size_t>(i) % kAlive);
    auto begun = Clock::now();
    if (block != nullptr) HIP_CHECK(calls.free(block, stream));
    freeing += Clock::now() - begun;
    const std::size_t bytes = 4096 + static_cast<std::size_t>(i * 7919 % 50) * 1024;
    begun = Clock::now();
    HIP_CHECK(calls.allocate(&block, bytes, stream));
    allocating += Clock::now() - begun;
    HIP_CHECK(hipMemsetAsync(block, i, bytes, stream));
  }
  for (void* block : alive) HIP_CHECK(calls.free(block, stream));
  hipGraph_t graph = nullptr;
  HIP_CHECK(calls.end(stream, &graph));
  HIP_CHECK(calls.destroy(graph));
  return {allocating.count() / kBlocks, freeing.count() / kBlocks};
}

// Seconds to capture `nodes` memsets on eight streams that fork and join, an allocation and a free
// around every eighth.
double capture_many(std::size_t nodes) {
  constexpr std::size_t kStreams = 8;
  std::vector<apps::Stream> streams;
  std::vector<apps::Event> events;
  for (std::size_t i = 0; i < kStreams; ++i) {
    streams.push_back(apps::make_non_blocking_stream());
    events.push_back(apps::make_ordering_event());
  }
  const hipStream_t origin = streams[0].get();
  void* memory = nullptr;
  HIP_CHECK(hipMalloc(&memory, 4096));
  const apps::DeviceMemory target(memory);
  const auto wait = [&](std::size_t waiting, std::size_t for_stream) {
    HIP_CHECK(hipEventRecord(events[for_stream].get(), streams[for_stream].get()));
    HIP_CHECK(hipStreamWaitEvent(streams[waiting].get(), events[for_stream].get(), 0));
  };
  Microseconds took{};
  const auto timed = [&](auto call) {
    const auto begun = Clock::now();
    HIP_CHECK(call());
    took += Clock::now() - begun;
  };
  timed([&] { return hipStreamBeginCapture(origin, hipStreamCaptureModeRelaxed); });
  for (std::size_t i = 1; i < kStreams; ++i) wait(i, 0);
  for (std::size_t node = 0; node < nodes; ++node) {
    const std::size_t at = node % kStreams;
    const hipStream_t stream = streams[at].get();
    if (node / kStreams % 8 == 0) {
      void* block = nullptr;
      timed([&] { return hipMallocAsync(&block, 4096, stream); });
      HIP_CHECK(hipMemsetAsync(block, 1, 4096, stream));
      timed([&] { return hipFreeAsync(block, stream); });
    } else {
      HIP_CHECK(hipMemsetAsync(target.get(), 1, 4096, stream));
    }
    if (node % 997 == 0 && at != 0) wait(0, at);
  }
  for (std::size_t i = 1; i < kStreams; ++i) wait(0, i);
  hipGraph_t graph = nullptr;
  timed([&] { return hipStreamEndCapture(origin, &graph); });
  HIP_CHECK(hipGraphDestroy(graph));
  return took.count() / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 300;
  const Calls ours;
  const Calls native = genuine_calls();
  if (!native.complete()) {
    std::fprintf(stderr, "capture: no runtime\n");
    return 1;
  }
  const apps::Stream stream = apps::make_non_blocking_stream();
  std::vector<double> allocate;
  std::vector<double> allocate_natively;
  std::vector<double> free;
  std::vector<double> free_natively;
  for (int round = 0; round < rounds; ++round) {
    const Cost with = capture(ours, stream.get());
    const Cost without = capture(native, stream.get());
    allocate.push_back(with.allocate);
    allocate_natively.push_back(without.allocate);
    free.push_back(with.free);
    free_natively.push_back(without.free);
  }
  const auto print = [](const char* call, double with, double without) {
    std::printf("%-16s %8.3f us   native %8.3f us   ratio %.3f\n", call, with, without,
                with / without);
  };
  print("hipMallocAsync", bench::median(allocate), bench::median(allocate_natively));
  print("hipFreeAsync", bench::median(free), bench::median(free_natively));
  for (const std::size_t nodes : {25'000, 50'000, 100'000}) {
    std::printf("%zu nodes on 8 streams: %.3f s in hipgraft's calls and the runtime's below them\n",
                nodes, capture_many(nodes));
  }
  return 0;
}
