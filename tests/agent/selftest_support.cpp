#include "selftest.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr char device_source[] = R"(
extern "C" {
__device__ int answer = 42;
__device__ int* answer_pointer = &answer;
__constant__ int table[4] = {1, 2, 3, 4};
__global__ void add(int* to, int amount, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] += amount;
}
__global__ void mix(int* to, const int* from, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = 3 * to[i] + from[i];
}
__global__ void meet(int* arrived, int* ok, int parties) { *ok = arrived && parties; }
__global__ void read_symbols(int* to) { *to = *answer_pointer + table[2]; }
__global__ void without_twin(int* to) { *to = 1; }
}
)";

void check_hiprtc(hiprtcResult result, const char* call) {
  if (result == HIPRTC_SUCCESS) return;
  const std::string message = std::string(call) + ": " + hiprtcGetErrorString(result);
  FAIL(message);
}
#define HIPRTC(call) check_hiprtc(call, #call)

std::vector<char> compile() {
  hiprtcProgram program;
  HIPRTC(hiprtcCreateProgram(&program, device_source, "kernels", 0, nullptr, nullptr));
  hipDeviceProp_t properties;
  HIP(hipGetDeviceProperties(&properties, 0));
  const std::string architecture = std::string("--offload-arch=") + properties.gcnArchName;
  const char* options[] = {architecture.c_str()};
  HIPRTC(hiprtcCompileProgram(program, 1, options));
  size_t size = 0;
  HIPRTC(hiprtcGetCodeSize(program, &size));
  std::vector<char> code(size);
  HIPRTC(hiprtcGetCode(program, code.data()));
  HIPRTC(hiprtcDestroyProgram(&program));
  return code;
}

}  // namespace

void check_hip(hipError_t error, const char* call) {
  if (error == hipSuccess) return;
  const std::string message = std::string(call) + ": " + hipGetErrorName(error);
  FAIL(message);
}

const std::vector<char>& device_code() {
  static const std::vector<char> code = compile();
  return code;
}

// Leaks on purpose: static destructors run when the runtime is half gone.
hipModule_t module() {
  static const hipModule_t loaded = [] {
    hipModule_t result;
    HIP(hipModuleLoadData(&result, device_code().data()));
    return result;
  }();
  return loaded;
}

hipFunction_t function(const char* name) {
  hipFunction_t result;
  HIP(hipModuleGetFunction(&result, module(), name));
  return result;
}

Child run_child_and_listen(const char* argument, std::vector<std::string> extra_environment) {
  std::vector<char*> environment;
  for (char** entry = environ; *entry; ++entry) environment.push_back(*entry);
  for (std::string& entry : extra_environment) environment.push_back(entry.data());
  environment.push_back(nullptr);
  std::string name = "selftest", word = argument;
  char* const arguments[] = {name.data(), word.data(), nullptr};
  int pipe_ends[2];
  REQUIRE(pipe2(pipe_ends, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDERR_FILENO);
  pid_t process = 0;
  const int error =
      posix_spawn(&process, "/proc/self/exe", &actions, nullptr, arguments, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  REQUIRE(error == 0);
  Child child{};
  char buffer[1024];
  for (ssize_t got = 0; (got = read(pipe_ends[0], buffer, sizeof buffer)) > 0;) {
    child.errors.append(buffer, static_cast<size_t>(got));
  }
  close(pipe_ends[0]);
  REQUIRE(waitpid(process, &child.status, 0) == process);
  return child;
}

int run_child(const char* argument, std::vector<std::string> extra_environment) {
  return run_child_and_listen(argument, std::move(extra_environment)).status;
}
