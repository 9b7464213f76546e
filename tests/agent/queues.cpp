// AQL queues: a ring of packets each, and a worker thread that carries them out.
#include <hsa/amd_hsa_queue.h>
#include <hsa/hsa_ext_amd.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <thread>

#include "agent.h"
#include "faults.h"
#include "kernels.h"
#include "options.h"
#include "order.h"
#include "signals.h"
#include "threads.h"

namespace softagent {
namespace {

struct alignas(64) Packet {
  union {
    uint16_t header;
    hsa_amd_vendor_packet_header_t vendor;
    hsa_kernel_dispatch_packet_t dispatch;
    hsa_agent_dispatch_packet_t agent_dispatch;
    hsa_barrier_and_packet_t barrier_and;
    hsa_barrier_or_packet_t barrier_or;
    hsa_amd_barrier_value_packet_t barrier_value;
  };

  uint8_t type() const { return static_cast<uint8_t>(header & 0xff); }
  // It starts only when all before it are done.
  bool has_barrier_bit() const { return header >> HSA_PACKET_HEADER_BARRIER & 1; }
  bool is_dispatch() const {
    return type() == HSA_PACKET_TYPE_KERNEL_DISPATCH || type() == HSA_PACKET_TYPE_AGENT_DISPATCH;
  }
};
static_assert(sizeof(Packet) == 64);
static_assert(offsetof(hsa_kernel_dispatch_packet_t, completion_signal) == 56);
static_assert(offsetof(hsa_barrier_and_packet_t, completion_signal) == 56);
static_assert(offsetof(hsa_amd_barrier_value_packet_t, completion_signal) == 56);

// The runtime casts its handle to amd_queue_v2_t, so that stands first.
class Queue {
 public:
  Queue(const Agent& agent, uint32_t size, hsa_queue_type32_t type)
      : agent_(agent), ring_(size), doorbell_(Signal::create(-1)) {
    static std::atomic<uint64_t> next_id{0};
    for (Packet& packet : ring_) packet.header = HSA_PACKET_TYPE_INVALID;
    amd_.hsa_queue.type = type;
    amd_.hsa_queue.features = HSA_QUEUE_FEATURE_KERNEL_DISPATCH;
    amd_.hsa_queue.base_address = ring_.data();
    amd_.hsa_queue.doorbell_signal = doorbell_->handle();
    amd_.hsa_queue.size = size;
    amd_.hsa_queue.id = next_id++;
    worker_ = start_joinable_thread("softagent queue", [this] { run(); });
  }

  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  ~Queue() {
    stopping_ = true;
    doorbell_->wait_point().notify();
    worker_.join();
    Signal::destroy(doorbell_);
  }

  static Queue* from(const hsa_queue_t* handle) {
    return reinterpret_cast<Queue*>(const_cast<hsa_queue_t*>(handle));
  }
  hsa_queue_t* handle() { return &amd_.hsa_queue; }

  std::atomic_ref<uint64_t> write_index() { return index(amd_.write_dispatch_id); }
  std::atomic_ref<uint64_t> read_index() { return index(amd_.read_dispatch_id); }

 private:
  static std::atomic_ref<uint64_t> index(volatile uint64_t& value) {
    return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(value));
  }

  void run() {
    prctl(PR_SET_TIMERSLACK, 1000);
    let_faults_through();
    if (options().random_order) {
      run_in_random_order();
    } else {
      run_in_order();
    }
  }

  // A packet runs only when all before it are done: stricter than its barrier bit asks for, and
  // one of the orders that the hardware may choose.
  void run_in_order() {
    while (Packet* slot = next_packet()) {
      const Packet packet = *slot;
      const uint64_t start = now_ns();
      execute(packet);
      if (stopping_) return;
      retire(*slot);
      complete(packet, start);
    }
  }

  // Packets start in the order of the queue; those that have started are done in any order.
  void run_in_random_order() {
    Chance chance(amd_.hsa_queue.id);
    std::vector<Packet> started;
    while (!stopping_) {
      start_packets(started);
      chance.pause();
      start_packets(started);  // those that the program has added meanwhile
      if (started.empty()) continue;
      const auto chosen = started.begin() + static_cast<std::ptrdiff_t>(choose(started, chance));
      const Packet packet = *chosen;
      started.erase(chosen);
      const uint64_t start = now_ns();
      execute(packet);
      if (!stopping_) complete(packet, start);
    }
  }

  // Waits for a packet only if none has started.
  void start_packets(std::vector<Packet>& started) {
    constexpr size_t most = 64;
    while (started.size() < most) {
      // A barrier packet lets none start after it before it is done.
      if (!started.empty() && !started.back().is_dispatch()) return;
      Packet* slot = started.empty() ? next_packet() : published_packet();
      if (!slot || (!started.empty() && slot->has_barrier_bit())) return;
      started.push_back(*slot);
      retire(*slot);
    }
  }

  size_t choose(const std::vector<Packet>& started, Chance& chance) const {
    std::vector<size_t> able;
    for (size_t i = 0; i < started.size(); ++i) {
      if (i == 0 ? can_run_first(started) : can_overtake(started[i])) able.push_back(i);
    }
    return able[chance.below(able.size())];
  }

  // A barrier packet that is alone may be waited for; before others it would hold them up.
  static bool can_run_first(const std::vector<Packet>& started) {
    return started.size() == 1 || started.front().is_dispatch();
  }

  bool can_overtake(const Packet& packet) const {
    if (packet.type() == HSA_PACKET_TYPE_KERNEL_DISPATCH) {
      // A kernel that waits may wait for one that has started before it.
      const Kernel* kernel = find_kernel(packet.dispatch.kernel_object);
      return !kernel || !kernel->waits();
    }
    return packet.type() == HSA_PACKET_TYPE_AGENT_DISPATCH || dependencies_hold(packet);
  }

  static bool dependencies_hold(const Packet& packet) {
    switch (packet.type()) {
      case HSA_PACKET_TYPE_BARRIER_AND:
        return std::all_of(std::begin(packet.barrier_and.dep_signal),
                           std::end(packet.barrier_and.dep_signal),
                           [](hsa_signal_t s) { return s.handle == 0 || is_zero(s); });
      case HSA_PACKET_TYPE_BARRIER_OR:
        return any_zero(packet.barrier_or);
      default:
        return packet.vendor.AmdFormat != HSA_AMD_PACKET_TYPE_BARRIER_VALUE ||
               value_holds(packet.barrier_value);
    }
  }

  Packet& next_slot() { return ring_[read_index().load() & (ring_.size() - 1)]; }

  bool is_published(Packet& slot) {
    const uint16_t header = std::atomic_ref(slot.header).load(std::memory_order_acquire);
    if ((header & 0xff) == HSA_PACKET_TYPE_INVALID) return false;
    // The slot was reserved, and the packet's signals made, before. ThreadSanitizer does not see
    // the store to the header, if the runtime was built without it, but it sees these.
    write_index().load();
    Signal::see_created();
    return true;
  }

  Packet* published_packet() {
    Packet& slot = next_slot();
    return is_published(slot) ? &slot : nullptr;
  }

  Packet* next_packet() {
    Packet& slot = next_slot();
    doorbell_->wait_point().wait([&] { return stopping_.load() || is_published(slot); },
                                 Clock::time_point::max(), std::chrono::seconds(1));
    return stopping_ ? nullptr : &slot;
  }

  void execute(const Packet& packet) {
    switch (packet.type()) {
      case HSA_PACKET_TYPE_KERNEL_DISPATCH:
        COUNT("packets.dispatch");
        return dispatch(packet.dispatch);
      case HSA_PACKET_TYPE_BARRIER_AND:
        COUNT("packets.barrier_and");
        for (const hsa_signal_t signal : packet.barrier_and.dep_signal) wait_for_zero(signal);
        return;
      case HSA_PACKET_TYPE_BARRIER_OR:
        COUNT("packets.barrier_or");
        return wait_for_any_zero(packet.barrier_or);
      case HSA_PACKET_TYPE_AGENT_DISPATCH:
        COUNT("packets.agent_dispatch");
        return;
      case HSA_PACKET_TYPE_VENDOR_SPECIFIC:
        COUNT("packets.vendor");
        if (packet.vendor.AmdFormat == HSA_AMD_PACKET_TYPE_BARRIER_VALUE) {
          wait_for_value(packet.barrier_value);
        }
        return;
      default:
        return;
    }
  }

  void dispatch(const hsa_kernel_dispatch_packet_t& packet) {
    Kernel* kernel = find_kernel(packet.kernel_object);
    if (!kernel) {
      COUNT("kernels.missing");
      return;
    }
    if (tracing())
      trace("run %s queue=%llu", kernel->name().c_str(),
            static_cast<unsigned long long>(amd_.hsa_queue.id));
    const uint32_t grid[3] = {packet.grid_size_x, packet.grid_size_y, packet.grid_size_z};
    const uint16_t block[3] = {packet.workgroup_size_x, packet.workgroup_size_y,
                               packet.workgroup_size_z};
    const Dispatch dispatch{kernel,
                            packet.kernarg_address,
                            {grid[0], grid[1], grid[2]},
                            {block[0], block[1], block[2]},
                            amd_.hsa_queue.id,
                            &agent_};
    const RunningDispatch running(dispatch);
    kernel->run(packet.kernarg_address, grid, block, stopping_);
  }

  void wait_for_zero(hsa_signal_t handle) {
    if (handle.handle == 0) return;
    Signal* signal = Signal::from(handle);
    signal->wait_point().wait([&] { return signal->load() == 0 || stopping_.load(); });
  }

  static bool is_zero(hsa_signal_t handle) { return Signal::from(handle)->load() == 0; }

  // Or there is no signal at all.
  static bool any_zero(const hsa_barrier_or_packet_t& packet) {
    bool any_signal = false;
    for (const hsa_signal_t handle : packet.dep_signal) {
      if (handle.handle == 0) continue;
      any_signal = true;
      if (is_zero(handle)) return true;
    }
    return !any_signal;
  }

  static bool value_holds(const hsa_amd_barrier_value_packet_t& packet) {
    if (packet.signal.handle == 0) return true;
    return condition_holds(static_cast<hsa_signal_condition_t>(packet.cond),
                           Signal::from(packet.signal)->load() & packet.mask, packet.value);
  }

  void wait_for_any_zero(const hsa_barrier_or_packet_t& packet) {
    // Several signals have no common wait point; the doorbell's looks at them often enough.
    doorbell_->wait_point().wait([&] { return any_zero(packet) || stopping_.load(); },
                                 Clock::time_point::max(), std::chrono::microseconds(100));
  }

  void wait_for_value(const hsa_amd_barrier_value_packet_t& packet) {
    if (packet.signal.handle == 0) return;
    Signal* signal = Signal::from(packet.signal);
    signal->wait_point().wait([&] { return value_holds(packet) || stopping_.load(); });
  }

  void retire(Packet& slot) {
    std::atomic_ref(slot.header).store(HSA_PACKET_TYPE_INVALID, std::memory_order_relaxed);
    read_index().fetch_add(1);
  }

  // The completion signal stands at the same place in every kind of packet.
  static void complete(const Packet& packet, uint64_t start) {
    const hsa_signal_t signal = packet.barrier_and.completion_signal;
    if (signal.handle != 0) Signal::from(signal)->complete(start, now_ns());
  }

  amd_queue_v2_t amd_{};
  const Agent& agent_;
  std::vector<Packet> ring_;
  Signal* doorbell_;
  std::atomic<bool> stopping_{false};
  std::thread worker_;
};

}  // namespace
}  // namespace softagent

using softagent::Queue;

hsa_status_t hsa_queue_create(hsa_agent_t agent_handle, uint32_t size, hsa_queue_type32_t type,
                              void (*)(hsa_status_t, hsa_queue_t*, void*), void*, uint32_t,
                              uint32_t, hsa_queue_t** queue) {
  SOFTAGENT_CALL_WITH("size=%u", size);
  const softagent::Agent* agent = softagent::find_agent(agent_handle);
  if (!agent) return HSA_STATUS_ERROR_INVALID_AGENT;
  if (!queue || !std::has_single_bit(size)) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (!agent->is_gpu()) return HSA_STATUS_ERROR_INVALID_QUEUE_CREATION;
  *queue = (new Queue(*agent, size, type))->handle();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_queue_destroy(hsa_queue_t* queue) {
  SOFTAGENT_CALL();
  if (!queue) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  delete Queue::from(queue);
  return HSA_STATUS_SUCCESS;
}

// Accepted without effect: workers have no compute units and no priorities.
hsa_status_t hsa_amd_queue_cu_set_mask(const hsa_queue_t*, uint32_t, const uint32_t*) {
  SOFTAGENT_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_queue_set_priority(hsa_queue_t*, hsa_amd_queue_priority_t) {
  SOFTAGENT_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_profiling_set_profiler_enabled(hsa_queue_t*, int) {
  SOFTAGENT_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_profiling_get_dispatch_time(hsa_agent_t, hsa_signal_t signal,
                                                 hsa_amd_profiling_dispatch_time_t* time) {
  SOFTAGENT_CALL();
  if (signal.handle == 0 || !time) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const softagent::Signal* done = softagent::Signal::from(signal);
  *time = {done->start_ns(), done->end_ns()};
  return HSA_STATUS_SUCCESS;
}

// Everything below is sequentially consistent, whatever order the name asks for.
#define QUEUE_LOAD(which, order)                                        \
  uint64_t hsa_queue_load_##which##_##order(const hsa_queue_t* queue) { \
    SOFTAGENT_CALL();                                                   \
    return Queue::from(queue)->which().load();                          \
  }
#define QUEUE_STORE(which, order)                                                    \
  void hsa_queue_store_##which##_##order(const hsa_queue_t* queue, uint64_t value) { \
    SOFTAGENT_CALL();                                                                \
    Queue::from(queue)->which().store(value);                                        \
  }
#define QUEUE_ADD(order)                                                                 \
  uint64_t hsa_queue_add_write_index_##order(const hsa_queue_t* queue, uint64_t value) { \
    SOFTAGENT_CALL();                                                                    \
    return Queue::from(queue)->write_index().fetch_add(value);                           \
  }
#define QUEUE_CAS(order)                                                                  \
  uint64_t hsa_queue_cas_write_index_##order(const hsa_queue_t* queue, uint64_t expected, \
                                             uint64_t value) {                            \
    SOFTAGENT_CALL();                                                                     \
    Queue::from(queue)->write_index().compare_exchange_strong(expected, value);           \
    return expected;                                                                      \
  }
#define QUEUE_MODIFY(order) QUEUE_ADD(order) QUEUE_CAS(order)

QUEUE_LOAD(read_index, relaxed)
QUEUE_LOAD(read_index, acquire)
QUEUE_LOAD(read_index, scacquire)
QUEUE_LOAD(write_index, relaxed)
QUEUE_LOAD(write_index, acquire)
QUEUE_LOAD(write_index, scacquire)
QUEUE_STORE(read_index, relaxed)
QUEUE_STORE(read_index, release)
QUEUE_STORE(read_index, screlease)
QUEUE_STORE(write_index, relaxed)
QUEUE_STORE(write_index, release)
QUEUE_STORE(write_index, screlease)
QUEUE_MODIFY(relaxed)
QUEUE_MODIFY(acquire)
QUEUE_MODIFY(scacquire)
QUEUE_MODIFY(release)
QUEUE_MODIFY(screlease)
QUEUE_MODIFY(acq_rel)
QUEUE_MODIFY(scacq_screl)
