#include "faults.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "memory.h"
#include "options.h"

namespace softagent {
namespace {

constexpr int watched_signals[] = {SIGSEGV, SIGBUS};

thread_local const Dispatch* running = nullptr;
// Of whoever watched before us.
struct sigaction previous_actions[2];

template <class... Values>
void append(std::string& text, const char* format, Values... values) {
  char part[128];
  std::snprintf(part, sizeof part, format, values...);
  text += part;
}

// Hidden arguments come last and fill up to 256 bytes; code objects that have them all say so by
// their size.
size_t explicit_words(const Kernel& kernel) {
  constexpr size_t hidden_bytes = 256;
  constexpr size_t most_words = 16;
  const size_t bytes = kernel.descriptor().kernarg_size;
  return std::min(most_words, (bytes > hidden_bytes ? bytes - hidden_bytes : bytes) / 8);
}

void append_argument(std::string& text, uint64_t word) {
  append(text, " 0x%llx", static_cast<unsigned long long>(word));
  // Smaller words are numbers: no allocation lies that low.
  if (word < uint64_t{1} << 32 || word >= uint64_t{1} << 47) return;
  text += " (" + describe_address(reinterpret_cast<const void*>(word)) + ")";
}

std::string fault_line(const Dispatch& dispatch, int signal, const void* address) {
  std::string text;
  append(text, "softagent: %s at %p (", signal == SIGBUS ? "SIGBUS" : "SIGSEGV", address);
  text += describe_address(address) + ") in kernel " + dispatch.kernel->name();
  append(text, ", queue %llu of gpu%u", static_cast<unsigned long long>(dispatch.queue),
         dispatch.agent->gpu);
  append(text, ", grid %ux%ux%u, block %ux%ux%u, arguments", dispatch.grid[0], dispatch.grid[1],
         dispatch.grid[2], unsigned{dispatch.block[0]}, unsigned{dispatch.block[1]},
         unsigned{dispatch.block[2]});
  const auto* bytes = static_cast<const uint8_t*>(dispatch.kernarg);
  for (size_t i = 0; bytes && i < explicit_words(*dispatch.kernel); ++i) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + 8 * i, sizeof word);
    append_argument(text, word);
  }
  return text + "\n";
}

void restore_default(int signal) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
}

// Not a kernel's fault: whoever watched before us.
void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = previous_actions[signal == SIGBUS];
  if (previous.sa_flags & SA_SIGINFO) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    return previous.sa_handler(signal);
  }
  restore_default(signal);  // the instruction runs again, and faults again
}

// A twin is interrupted in its own code, where it holds no lock of the agent or of the C library,
// so this may format and look up what it likes.
void on_fault(int signal, siginfo_t* info, void* context) {
  const Dispatch* dispatch = running;
  if (!dispatch) return pass_on(signal, info, context);
  running = nullptr;  // should the message itself fault
  const std::string line = fault_line(*dispatch, signal, info->si_addr);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  if (options().abort_on_fault) std::abort();
  restore_default(signal);
}

bool is_ours(const struct sigaction& action) {
  return action.sa_flags & SA_SIGINFO && action.sa_sigaction == on_fault;
}

// The compiler library that the runtime uses puts back, when it has compiled something, the
// handlers that it found before. So we look again at each kernel.
void watch(int signal) {
  struct sigaction current {};
  sigaction(signal, nullptr, &current);
  if (is_ours(current)) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  previous_actions[signal == SIGBUS] = current;
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(signal, &ours, nullptr);
}

}  // namespace

void let_faults_through() {
  sigset_t faults;
  sigemptyset(&faults);
  for (const int signal : watched_signals) sigaddset(&faults, signal);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

RunningDispatch::RunningDispatch(const Dispatch& dispatch) {
  for (const int signal : watched_signals) watch(signal);
  running = &dispatch;
}
RunningDispatch::~RunningDispatch() { running = nullptr; }

}  // namespace softagent
