// Reports for the tests: an ordinary one, and ones at the edges of what may happen.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "report/model.h"

namespace samples {

using hipgraft::report::Capture;
using hipgraft::report::Report;
using hipgraft::report::Status;

inline Report without_captures() {
  Report report;
  report.pid = 4711;
  report.exe = "/opt/bin/simulator";
  report.args = {"simulator", "--steps", "10"};
  return report;
}

inline Capture step_capture() {
  Capture capture;
  capture.id = 1;
  capture.count = 1;
  capture.site = {"Step::run", "/opt/lib/libsim.so", 0x1a2f0};
  capture.stream = 0x55d0;
  capture.mode = "global";
  capture.native.kernel = 210;
  capture.native.memset = 24;
  capture.native.mem_alloc = 24;
  capture.native.mem_free = 24;
  capture.captured.kernel = 210;
  capture.captured.memset = 24;
  capture.edges = 233;
  capture.width = 1;
  capture.critical_path = 234;
  capture.kernels = {{"integrate", 200}, {"reduce", 10}};
  capture.arena.requests = 24;
  capture.arena.bytes_requested = 43201331;
  capture.arena.high_water = 10171187;
  capture.arena.lower_bound = 9542042;
  capture.arena.chunk_bytes = 16777216;
  capture.arena.chunks = 1;
  capture.arena.requesters = {{{"Step::scratch", "libsim.so", 0x1b000}, 20, 43000000},
                              {{"", "libsim.so", 0x2b10}, 4, 201331}};
  capture.execs = 1;
  capture.replays.count = 1000;
  capture.replays.host_us_p50 = 6.94;
  capture.replays.host_us_p99 = 9.06;
  capture.replays.host_us_max = 31.25;
  return capture;
}

inline Capture broken_capture() {
  Capture capture;
  capture.id = 2;
  capture.count = 3;
  capture.site = {"", "simulator", 0x40};
  capture.stream = 0x55e0;
  capture.mode = "thread_local";
  capture.status = Status::broken;
  capture.has_first_cause = true;
  capture.first_cause.call = "hipMallocAsync";
  capture.first_cause.error = "hipErrorOutOfMemory";
  capture.first_cause.site = {"fwd_position", "/opt/lib/libsim.so", 0x2b10};
  capture.first_cause.detail =
      "The arena has reached HIPGRAFT_ARENA_LIMIT and the runtime has no memory left for a block "
      "of 4.0 GiB.";
  capture.native.kernel = 2;
  capture.native.mem_alloc = 1;
  capture.captured.kernel = 2;
  capture.captured.mem_alloc = 1;
  capture.edges = 1;
  capture.width = 1;
  capture.critical_path = 2;
  return capture;
}

// With everything filled that may be absent.
inline Report full() {
  Report report = without_captures();
  report.runtime_path = "/opt/rocm/lib/libamdhip64.so.7";
  report.runtime_version = "7.2.0";
  report.route = "symbol";
  report.devices = {"gfx942", "gfx942"};
  report.options = {{"HIPGRAFT", "on"}, {"HIPGRAFT_REPORT", ""}};

  Capture step = step_capture();
  step.arena.escapes = 1;
  step.arena.native_fallbacks = {{"larger than HIPGRAFT_ARENA_LIMIT", 2}};
  step.arena.blocks = {{0x7f0000000100, 256, false}, {0xffffffffffffff00, 512, true}};
  step.has_graph = true;
  step.graph.nodes = {{0, "kernel", "integrate"}, {1, "memset", ""}};
  step.graph.edges = {{0, 1}};
  report.captures = {step, broken_capture()};
  return report;
}

// Names from a hostile world, numbers at their limits.
inline Report hostile() {
  Report report = full();
  report.exe = "/tmp/a\"b\\c\nd\xff";
  report.args = {std::string("nul\0inside", 10), "\xe2\x82", "</script>", "\x1b[2J"};
  Capture& step = report.captures[0];
  step.site.symbol = "solve<";
  for (int i = 0; i < 400; ++i) step.site.symbol += "\xc3\xa4::Traits<int>, ";
  step.site.module = "/opt/" + std::string(300, 'm') + ".so";
  step.stream = UINT64_MAX;
  step.id = UINT64_MAX;
  step.count = 2;
  step.native.other = 1000000000000;
  step.captured.event_record = 7;
  step.linearized = true;
  step.kernels = {{std::string(5000, 'k'), UINT64_MAX}};
  step.arena.bytes_requested = UINT64_MAX;
  step.arena.high_water = UINT64_MAX;
  step.arena.lower_bound = 1;
  step.arena.chunks = UINT64_MAX;
  step.arena.native_fallbacks = {{std::string(200, 'r'), 1}, {"two\nlines", 2}};
  step.replays.host_us_p50 = std::nan("");
  step.replays.host_us_p99 = HUGE_VAL;
  step.replays.host_us_max = 1e300;
  Capture& broken = report.captures[1];
  broken.first_cause.call = std::string(100, 'c');
  broken.first_cause.site.symbol = std::string(100, 's');
  broken.first_cause.detail = std::string(170, 'd') + " \xff " + std::string(3, ' ') + "end";
  return report;
}

inline Report abandoned() {
  Report report = without_captures();
  Capture capture;
  capture.id = 1;
  capture.count = 1;
  capture.mode = "relaxed";
  capture.status = Status::abandoned;
  report.captures = {capture};
  return report;
}

}  // namespace samples
