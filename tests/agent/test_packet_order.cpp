// The order in which a queue's packets are carried out, tried with packets of our own.
#include <hsa/hsa.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "selftest.h"

namespace {

void check_hsa(hsa_status_t status, const char* call) {
  const std::string message = std::string(call) + " gave " + std::to_string(status);
  if (status != HSA_STATUS_SUCCESS) FAIL(message);
}
#define HSA(call) check_hsa(call, #call)

hsa_agent_t first_gpu() {
  hsa_agent_t gpu{};
  hsa_iterate_agents(
      [](hsa_agent_t agent, void* data) {
        hsa_device_type_t type;
        hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
        if (type != HSA_DEVICE_TYPE_GPU) return HSA_STATUS_SUCCESS;
        *static_cast<hsa_agent_t*>(data) = agent;
        return HSA_STATUS_INFO_BREAK;
      },
      &gpu);
  return gpu;
}

// The kernel "mix" as HSA knows it. Computing 3 * to + from shows in which order it ran.
uint64_t mix_object() {
  static const uint64_t object = [] {
    hsa_code_object_reader_t reader;
    HSA(hsa_code_object_reader_create_from_memory(device_code().data(), device_code().size(),
                                                  &reader));
    hsa_executable_t executable;
    HSA(hsa_executable_create_alt(HSA_PROFILE_BASE, HSA_DEFAULT_FLOAT_ROUNDING_MODE_NEAR, nullptr,
                                  &executable));
    HSA(hsa_executable_load_agent_code_object(executable, first_gpu(), reader, nullptr, nullptr));
    hsa_executable_symbol_t symbol;
    HSA(hsa_executable_get_symbol_by_name(executable, "mix.kd", nullptr, &symbol));
    uint64_t kernel_object = 0;
    HSA(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT,
                                       &kernel_object));
    return kernel_object;
  }();
  return object;
}

struct MixArguments {
  int* to;
  const int* from;
  int n;
};

class TestQueue {
 public:
  TestQueue() {
    HSA(hsa_queue_create(first_gpu(), 256, HSA_QUEUE_TYPE_SINGLE, nullptr, nullptr, 0, 0, &queue_));
  }
  ~TestQueue() { hsa_queue_destroy(queue_); }
  TestQueue(const TestQueue&) = delete;
  TestQueue& operator=(const TestQueue&) = delete;

  void mix(const MixArguments& arguments, bool barrier, hsa_signal_t done = {}) {
    hsa_kernel_dispatch_packet_t packet{};
    packet.setup = 1;
    packet.workgroup_size_x = packet.workgroup_size_y = packet.workgroup_size_z = 1;
    packet.grid_size_x = packet.grid_size_y = packet.grid_size_z = 1;
    packet.kernel_object = mix_object();
    packet.kernarg_address = const_cast<MixArguments*>(&arguments);
    packet.completion_signal = done;
    push(packet, HSA_PACKET_TYPE_KERNEL_DISPATCH, barrier);
  }

  void barrier_and(hsa_signal_t dependency, bool barrier, hsa_signal_t done = {}) {
    hsa_barrier_and_packet_t packet{};
    packet.dep_signal[0] = dependency;
    packet.completion_signal = done;
    push(packet, HSA_PACKET_TYPE_BARRIER_AND, barrier);
  }

 private:
  template <class Packet>
  void push(Packet& packet, uint16_t type, bool barrier) {
    static_assert(sizeof packet == 64);
    const uint64_t index = hsa_queue_add_write_index_relaxed(queue_, 1);
    char* slot = static_cast<char*>(queue_->base_address) + 64 * (index & (queue_->size - 1));
    // All but the header, which publishes the rest.
    std::memcpy(slot + 2, reinterpret_cast<const char*>(&packet) + 2, 62);
    const auto header = static_cast<uint16_t>(type | barrier << HSA_PACKET_HEADER_BARRIER);
    std::atomic_ref(*reinterpret_cast<uint16_t*>(slot)).store(header, std::memory_order_release);
    hsa_signal_store_screlease(queue_->doorbell_signal, static_cast<hsa_signal_value_t>(index));
  }

  hsa_queue_t* queue_ = nullptr;
};

struct TestSignal {
  explicit TestSignal(hsa_signal_value_t initial) {
    HSA(hsa_signal_create(initial, 0, nullptr, &handle));
  }
  ~TestSignal() { hsa_signal_destroy(handle); }
  TestSignal(const TestSignal&) = delete;
  TestSignal& operator=(const TestSignal&) = delete;
  void wait() const {
    REQUIRE(hsa_signal_wait_scacquire(handle, HSA_SIGNAL_CONDITION_EQ, 0, 10000000000,
                                      HSA_WAIT_STATE_BLOCKED) == 0);
  }
  hsa_signal_t handle;
};

constexpr int steps = 6;
constexpr int in_order = 1 * 243 + 2 * 81 + 3 * 27 + 4 * 9 + 5 * 3 + 6;

// value = 3 * value + step, for steps 1 to 6, queued while a barrier packet holds all of them back.
int run_steps(bool barrier_bits) {
  TestQueue queue;
  TestSignal gate(1), done(steps);
  int value = 0;
  const int numbers[steps] = {1, 2, 3, 4, 5, 6};
  MixArguments arguments[steps];
  queue.barrier_and(gate.handle, false);
  for (int i = 0; i < steps; ++i) {
    arguments[i] = {&value, &numbers[i], 1};
    queue.mix(arguments[i], barrier_bits, done.handle);
  }
  hsa_signal_store_screlease(gate.handle, 0);
  done.wait();
  return value;
}

bool random_order_is_on() {
  const char* order = std::getenv("SOFTAGENT_ORDER");
  return order && std::string(order) == "random";
}

}  // namespace

TEST_CASE("packets with barrier bits keep their order") {
  HIP(hipInit(0));
  for (int round = 0; round < 20; ++round) REQUIRE(run_steps(true) == in_order);
}

TEST_CASE("packets without barrier bits change places only if that was asked for") {
  HIP(hipInit(0));
  int changed = 0;
  for (int round = 0; round < 20; ++round) changed += run_steps(false) != in_order;
  if (random_order_is_on()) {
    CHECK(changed > 10);
  } else {
    CHECK(changed == 0);
  }
}

TEST_CASE("nothing passes a barrier packet that waits") {
  HIP(hipInit(0));
  for (int round = 0; round < 20; ++round) {
    TestQueue queue;
    TestSignal gate(1), before(1), after(1);
    int early = 0;
    int late = 0;
    const int one = 1;
    const MixArguments first{&early, &one, 1};
    const MixArguments second{&late, &one, 1};
    queue.mix(first, false, before.handle);
    queue.barrier_and(gate.handle, false);
    queue.mix(second, false, after.handle);
    before.wait();  // the barrier packet does not hold up what stands before it
    CHECK(hsa_signal_load_scacquire(after.handle) == 1);
    hsa_signal_store_screlease(gate.handle, 0);
    after.wait();
    CHECK(late == 1);
  }
}
