// The agent on its own, without a HIP runtime, used by many threads at once. Built with
// ThreadSanitizer, which would not see through a runtime that was built without it.
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "softagent.h"

namespace {

constexpr int threads = 4;
constexpr int rounds = 30;
constexpr size_t bytes = 3 * 4096;

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "stress: %s\n", what);
  std::abort();
}
#define HOLDS(condition) check(condition, #condition)
#define HSA(call) check((call) == HSA_STATUS_SUCCESS, #call)

hsa_status_t take_first_gpu(hsa_agent_t agent, void* data) {
  hsa_device_type_t type;
  hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
  if (type != HSA_DEVICE_TYPE_GPU) return HSA_STATUS_SUCCESS;
  *static_cast<hsa_agent_t*>(data) = agent;
  return HSA_STATUS_INFO_BREAK;
}

hsa_agent_t gpu() {
  hsa_agent_t found{};
  hsa_iterate_agents(take_first_gpu, &found);
  return found;
}

hsa_amd_memory_pool_t pool_of(hsa_agent_t agent) {
  hsa_amd_memory_pool_t found{};
  hsa_amd_agent_iterate_memory_pools(
      agent,
      [](hsa_amd_memory_pool_t pool, void* data) {
        *static_cast<hsa_amd_memory_pool_t*>(data) = pool;
        return HSA_STATUS_INFO_BREAK;
      },
      &found);
  return found;
}

hsa_signal_t make_signal(hsa_signal_value_t value) {
  hsa_signal_t signal;
  HSA(hsa_signal_create(value, 0, nullptr, &signal));
  return signal;
}

void wait_for_zero(hsa_signal_t signal) {
  HOLDS(hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_EQ, 0, 20000000000ull,
                                  HSA_WAIT_STATE_BLOCKED) == 0);
}

template <class Packet>
void push(hsa_queue_t* queue, const Packet& packet, hsa_packet_type_t type, bool barrier) {
  static_assert(sizeof packet == 64);
  const uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
  while (index - hsa_queue_load_read_index_scacquire(queue) >= queue->size) {
    std::this_thread::yield();
  }
  char* slot = static_cast<char*>(queue->base_address) + 64 * (index & (queue->size - 1));
  // All but the header, which publishes the rest.
  std::memcpy(slot + 2, reinterpret_cast<const char*>(&packet) + 2, 62);
  const auto header = static_cast<uint16_t>(type | barrier << HSA_PACKET_HEADER_BARRIER);
  std::atomic_ref(*reinterpret_cast<uint16_t*>(slot)).store(header, std::memory_order_release);
  hsa_signal_store_screlease(queue->doorbell_signal, static_cast<hsa_signal_value_t>(index));
}

void push_barrier(hsa_queue_t* queue, hsa_signal_t dependency, hsa_signal_t done) {
  hsa_barrier_and_packet_t packet{};
  packet.dep_signal[0] = dependency;
  packet.completion_signal = done;
  push(queue, packet, HSA_PACKET_TYPE_BARRIER_AND, false);
}

// No kernel: only the queue is under test.
void push_dispatch(hsa_queue_t* queue, bool barrier, hsa_signal_t done) {
  hsa_kernel_dispatch_packet_t packet{};
  packet.completion_signal = done;
  push(queue, packet, HSA_PACKET_TYPE_KERNEL_DISPATCH, barrier);
}

// Two queues, shared by all threads, whose packets wait for each other and for copies.
struct Shared {
  hsa_agent_t agent = gpu();
  hsa_amd_memory_pool_t pool = pool_of(agent);
  hsa_queue_t* queues[2] = {};
};

void order_queues_and_copies(const Shared& shared) {
  void* first = nullptr;
  void* second = nullptr;
  HSA(hsa_amd_memory_pool_allocate(shared.pool, bytes, 0, &first));
  HSA(hsa_amd_memory_pool_allocate(shared.pool, bytes, 0, &second));
  HSA(hsa_amd_memory_fill(first, 7, bytes / 4));
  const hsa_signal_t copied = make_signal(1);
  const hsa_signal_t crossed = make_signal(1);
  const hsa_signal_t done = make_signal(9);
  HSA(hsa_amd_memory_async_copy(second, shared.agent, first, shared.agent, bytes, 0, nullptr,
                                copied));
  push_barrier(shared.queues[0], copied, crossed);
  push_barrier(shared.queues[1], crossed, done);
  for (int i = 0; i < 8; ++i) push_dispatch(shared.queues[i % 2], i % 3 == 0, done);
  wait_for_zero(done);
  HOLDS(std::memcmp(first, second, bytes) == 0);
  for (const hsa_signal_t signal : {copied, crossed, done}) HSA(hsa_signal_destroy(signal));
  HSA(hsa_amd_memory_pool_free(first));
  HSA(hsa_amd_memory_pool_free(second));
}

void call_handlers(const Shared& shared) {
  const hsa_signal_t work = make_signal(1);
  std::atomic<int> calls{0};
  const auto handler = [](hsa_signal_value_t, void* data) {
    static_cast<std::atomic<int>*>(data)->fetch_add(1);
    return false;
  };
  HSA(hsa_amd_signal_async_handler(work, HSA_SIGNAL_CONDITION_LT, 1, handler, &calls));
  push_dispatch(shared.queues[0], true, work);
  while (calls.load() == 0) std::this_thread::yield();
  HSA(hsa_signal_destroy(work));
}

void map_memory(const Shared& shared) {
  void* address = nullptr;
  hsa_amd_vmem_alloc_handle_t handle{};
  const hsa_amd_memory_access_desc_t access{HSA_ACCESS_PERMISSION_RW, shared.agent};
  HSA(hsa_amd_vmem_address_reserve(&address, bytes, 0, 0));
  HSA(hsa_amd_vmem_handle_create(shared.pool, bytes, MEMORY_TYPE_NONE, 0, &handle));
  HSA(hsa_amd_vmem_map(address, bytes, 0, handle, 0));
  HSA(hsa_amd_vmem_set_access(address, bytes, &access, 1));
  std::memset(address, 1, bytes);
  HSA(hsa_amd_vmem_unmap(address, bytes));
  HSA(hsa_amd_vmem_handle_release(handle));
  HSA(hsa_amd_vmem_address_free(address, bytes));
}

void import_own_memory(const Shared& shared) {
  void* memory = nullptr;
  void* imported = nullptr;
  hsa_amd_ipc_memory_t handle;
  HSA(hsa_amd_memory_pool_allocate(shared.pool, bytes, 0, &memory));
  HSA(hsa_amd_ipc_memory_create(memory, bytes, &handle));
  HSA(hsa_amd_ipc_memory_attach(&handle, bytes, 1, &shared.agent, &imported));
  std::memset(memory, 5, bytes);
  HOLDS(static_cast<char*>(imported)[bytes - 1] == 5);
  HSA(hsa_amd_ipc_memory_detach(imported));
  HOLDS(hsa_amd_ipc_memory_detach(imported) != HSA_STATUS_SUCCESS);
  HSA(hsa_amd_memory_pool_free(memory));
}

void own_queue(const Shared& shared) {
  hsa_queue_t* queue = nullptr;
  HSA(hsa_queue_create(shared.agent, 16, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, 0, 0, &queue));
  const hsa_signal_t done = make_signal(40);
  for (int i = 0; i < 40; ++i) push_dispatch(queue, false, done);
  wait_for_zero(done);
  HSA(hsa_queue_destroy(queue));
  HSA(hsa_signal_destroy(done));
}

void work(const Shared& shared) {
  for (int round = 0; round < rounds; ++round) {
    order_queues_and_copies(shared);
    call_handlers(shared);
    map_memory(shared);
    import_own_memory(shared);
    own_queue(shared);
  }
}

}  // namespace

int main() {
  HSA(hsa_init());
  Shared shared;
  for (hsa_queue_t*& queue : shared.queues) {
    HSA(hsa_queue_create(shared.agent, 256, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, 0, 0, &queue));
  }
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) workers.emplace_back([&] { work(shared); });
  for (std::thread& worker : workers) worker.join();
  for (hsa_queue_t* queue : shared.queues) HSA(hsa_queue_destroy(queue));
  HOLDS(softagent_device_bytes() == 0);
  std::puts("stress: done");
}
