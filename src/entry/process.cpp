#include "entry/process.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "capture/records.h"
#include "capture/state.h"
#include "config/options.h"
#include "hipgraft/hipgraft.h"
#include "report/destination.h"
#include "runtime/calls.h"
#include "runtime/real.h"
#include "util/log.h"

namespace hipgraft::entry {
namespace {

enum class Phase : int { untouched, off, on };

constinit std::atomic<Phase> phase{Phase::untouched};
constinit std::mutex starting;
constinit std::mutex reporting;
constinit report::Destinations* destinations = nullptr;
// Filled before exit: no HIP call is made then.
constinit report::Report* identity = nullptr;
constinit std::atomic<std::int64_t> last_written{0};

void in_child() {
  phase.store(Phase::off);
  capture::generation.fetch_add(1);  // no launch is remembered
}

std::vector<std::string> command_line() {
  std::vector<std::string> arguments;
  std::FILE* file = std::fopen("/proc/self/cmdline", "re");
  if (file == nullptr) return arguments;
  std::string argument;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
    if (c != '\0') {
      argument.push_back(static_cast<char>(c));
      continue;
    }
    arguments.push_back(argument);
    argument.clear();
  }
  std::fclose(file);
  return arguments;
}

std::string executable() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string();
}

std::int64_t now_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

Phase start() {
  config::Options options = config::load_environment();
  if (!options.enabled) return Phase::off;
  capture::configure(options);
  const config::Options& kept = capture::options();
  if (!kept.runtime.empty()) runtime::use_library(kept.runtime.c_str());
  pthread_atfork(nullptr, nullptr, in_child);
  if (kept.report.empty()) return Phase::on;
  destinations = new report::Destinations(kept.report);
  identity = new report::Report;
  identity->pid = static_cast<std::uint64_t>(getpid());
  identity->exe = executable();
  identity->args = command_line();
  identity->route = "symbol";
  identity->options = config::values(kept);
  return Phase::on;
}

void write(report::Moment moment) {
  report::Report report = *identity;
  capture::fill(report);
  destinations->write(report, moment);
}

// Not at exit: asks the runtime for what only it can tell.
void write_running(report::Moment moment) {
  const std::string path = runtime::library_path();
  const std::string version = runtime::version();
  const std::vector<std::string> devices = runtime::device_names();
  const std::lock_guard lock(reporting);
  identity->runtime_path = path;
  identity->runtime_version = version;
  identity->devices = devices;
  write(moment);
}

// Another thread may be inside hipgraft for good when the program exits.
bool lock_at_exit() {
  for (int attempt = 0; attempt < 200; ++attempt) {
    if (reporting.try_lock()) return true;
    usleep(1000);
  }
  return false;
}

__attribute__((destructor)) void at_exit() {
  if (phase.load() != Phase::on || destinations == nullptr || !lock_at_exit()) return;
  write(report::Moment::final);
  reporting.unlock();
}

}  // namespace

bool active(const void* caller) {
  const Phase now = phase.load(std::memory_order_acquire);
  if (now != Phase::untouched) return now == Phase::on;
  {
    const std::lock_guard lock(starting);
    if (phase.load() != Phase::untouched) return phase.load() == Phase::on;
    phase.store(start(), std::memory_order_release);
  }
  if (phase.load() != Phase::on) return false;
  runtime::functions_for(caller);
  log::write(log::Level::info, "{} active, runtime {}, route symbol", HIPGRAFT_VERSION,
             runtime::library_path());
  return true;
}

bool at_work() { return phase.load(std::memory_order_acquire) == Phase::on; }

void report_progress() {
  if (destinations == nullptr) return;
  const std::int64_t now = now_seconds();
  std::int64_t last = last_written.load();
  if (now == last || !last_written.compare_exchange_strong(last, now)) return;
  write_running(report::Moment::interim);
}

void write_report() {
  if (destinations == nullptr) return;
  write_running(report::Moment::final);
}

}  // namespace hipgraft::entry
