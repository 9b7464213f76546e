// Threads that capture, launch, free and destroy at once, each on streams of its own; escaped
// blocks and execs wander to other threads. THREADS_SECONDS=N does so for N seconds: built with
// -Dsanitize_shim=thread it looks for data races.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

#include "scenario.h"

using namespace scenario;

namespace {

constexpr int kThreads = 8;
constexpr int kTurns = 150;

// Blocks whose graph has run, for whoever frees them.
class Exchange {
 public:
  void* swap(void* block) {
    const std::lock_guard lock(mutex_);
    blocks_.push_back(block);
    std::swap(blocks_.front(), blocks_.back());
    void* const other = blocks_.back();
    blocks_.pop_back();
    return other;
  }
  std::vector<void*> take_all() { return std::move(blocks_); }

 private:
  std::mutex mutex_;
  std::vector<void*> blocks_ = std::vector<void*>(2 * kThreads, nullptr);
};

class Worker {
 public:
  Worker(std::uint32_t seed, Exchange& exchange)
      : random_(seed),
        exchange_(exchange),
        stream_(apps::make_non_blocking_stream()),
        fork_(apps::make_non_blocking_stream()) {}

  void turn() {
    void* escaped = nullptr;
    const apps::Graph graph = capture(
        stream_.get(), [&] { escaped = capture_blocks(); }, hipStreamCaptureModeThreadLocal);
    if (random_() % 8 == 0) return;
    run(graph);
    void* const block = exchange_.swap(escaped);
    if (block != nullptr) CHECK(hipFreeAsync(block, stream_.get()) == hipSuccess);
  }

  // Whether all was right.
  bool finish() {
    HIP_CHECK(hipStreamSynchronize(stream_.get()));
    return faults_.read() == 0;
  }

 private:
  void* capture_blocks() {
    const hipStream_t stream = stream_.get();
    auto* const escaped = allocate_async<std::uint32_t>(kCells, stream);
    launch_fill(escaped, kCells, 0, stream);
    HIP_CHECK(hipEventRecord(forked_.get(), stream));
    HIP_CHECK(hipStreamWaitEvent(fork_.get(), forked_.get(), 0));
    for (const hipStream_t on : {stream, fork_.get(), stream}) {
      auto* const cells = allocate_async<std::uint32_t>(kCells * (1 + random_() % 50), on);
      launch_enter(cells, kCells, faults_.get(), on);
      launch_leave(cells, kCells, faults_.get(), on);
      if (random_() % 8 == 0) {
        HIP_CHECK(hipFree(cells));
      } else {
        HIP_CHECK(hipFreeAsync(cells, on));
      }
    }
    HIP_CHECK(hipEventRecord(joined_.get(), fork_.get()));
    HIP_CHECK(hipStreamWaitEvent(stream, joined_.get(), 0));
    return escaped;
  }

  void run(const apps::Graph& graph) {
    apps::GraphExec exec = apps::instantiate(graph);
    if (random_() % 4 == 0) {
      hipGraph_t clone = nullptr;
      HIP_CHECK(hipGraphClone(&clone, graph.get()));
      exec = apps::instantiate(apps::Graph(clone));
    }
    HIP_CHECK(hipGraphLaunch(exec.get(), stream_.get()));
    if (random_() % 2 == 0) HIP_CHECK(hipGraphLaunch(exec.get(), stream_.get()));
    if (random_() % 4 == 0) HIP_CHECK(hipStreamSynchronize(stream_.get()));
  }

  std::mt19937 random_;
  Exchange& exchange_;
  apps::Stream stream_;
  apps::Stream fork_;
  apps::Event forked_ = apps::make_ordering_event();
  apps::Event joined_ = apps::make_ordering_event();
  DeviceValue faults_;
};

}  // namespace

TEST_SUITE_BEGIN("threads");

// 5.7 mixes the kernel arguments of launches that threads issue at once, also without hipgraft.
#if HIP_VERSION_MAJOR >= 6
TEST_CASE("eight threads capture at once") {
  const char* const text = std::getenv("THREADS_SECONDS");
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::seconds(text != nullptr ? std::atoi(text) : 0);
  Exchange exchange;
  std::vector<Worker> workers;
  workers.reserve(kThreads);
  for (std::uint32_t i = 0; i < kThreads; ++i) workers.emplace_back(i, exchange);
  std::atomic<int> turns{0};
  std::mutex failure_mutex;
  std::string failure;
  std::vector<std::thread> threads;
  for (Worker& worker : workers) {
    threads.emplace_back([&] {
      try {
        for (int i = 0; i < kTurns || std::chrono::steady_clock::now() < until; ++i) {
          worker.turn();
          turns.fetch_add(1);
        }
      } catch (const std::exception& error) {
        const std::lock_guard lock(failure_mutex);
        if (failure.empty()) failure = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failure == "");
  for (Worker& worker : workers) CHECK(worker.finish());
  for (void* const block : exchange.take_all()) {
    if (block != nullptr) CHECK(hipFree(block) == hipSuccess);
  }
  MESSAGE(turns.load() << " captures");
}
#endif

TEST_SUITE_END();
