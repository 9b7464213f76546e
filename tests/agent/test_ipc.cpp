// Device memory shared between two processes.
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>

#include "selftest.h"

namespace {

constexpr int cells = 3000;

std::string to_hex(const hipIpcMemHandle_t& handle) {
  std::string text;
  char digits[3];
  for (const char byte : handle.reserved) {
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(byte) & 0xff);
    text += digits;
  }
  return text;
}

hipIpcMemHandle_t from_hex(const std::string& text) {
  hipIpcMemHandle_t handle{};
  for (size_t i = 0; i < sizeof handle.reserved && 2 * i + 1 < text.size(); ++i) {
    handle.reserved[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return handle;
}

}  // namespace

// The importing side: expects the values of the exporting side, and adds to them.
int export_or_import_memory(const std::string& role) {
  const char* text = std::getenv("IPC_HANDLE");
  if (!text) return 1;
  void* memory = nullptr;
  const hipError_t opened =
      hipIpcOpenMemHandle(&memory, from_hex(text), hipIpcMemLazyEnablePeerAccess);
  if (role == "ipc-nothing") return opened == hipSuccess ? 1 : 3;
  HIP(opened);
  std::vector<int> seen(cells);
  HIP(hipMemcpy(seen.data(), memory, cells * sizeof(int), hipMemcpyDeviceToHost));
  if (seen != std::vector<int>(cells, 40)) return 2;
  Stream stream;
  launch(function("add"), 12, 256, stream, static_cast<int*>(memory), 2, cells);
  stream.sync();
  HIP(hipIpcCloseMemHandle(memory));
  return 3;
}

TEST_CASE("another process opens device memory, sees it and changes it") {
  Device<int> memory(cells);
  memory.write(std::vector<int>(cells, 40));
  hipIpcMemHandle_t handle;
  HIP(hipIpcGetMemHandle(&handle, memory.data));
  const uint64_t before = softagent_device_bytes();
  CHECK(WEXITSTATUS(run_child("ipc-import", {"IPC_HANDLE=" + to_hex(handle)})) == 3);
  CHECK(memory.read() == std::vector<int>(cells, 42));
  CHECK(softagent_device_bytes() == before);
}

TEST_CASE("a handle that nobody made is refused") {
  CHECK(WEXITSTATUS(run_child("ipc-nothing", {"IPC_HANDLE=00"})) == 3);
}
