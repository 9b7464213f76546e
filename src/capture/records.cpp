#include "capture/records.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "util/log.h"

namespace hipgraft::capture {
namespace {

using namespace abi;

// Enough for any program's capture sites; a program that never captures the same graph twice must
// not fill the memory.
constexpr std::size_t kMaxRecords = 1000;

std::string demangled(const char* symbol) {
  int status = 0;
  char* plain = __cxxabiv1::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string name = status == 0 ? plain : symbol;
  std::free(plain);
  return name;
}

const char* mode_name(hipStreamCaptureMode mode) {
  switch (mode) {
    case hipStreamCaptureModeThreadLocal:
      return "thread_local";
    case hipStreamCaptureModeRelaxed:
      return "relaxed";
    default:
      return "global";
  }
}

std::vector<report::Requester> top_requesters(const Session& session) {
  constexpr std::size_t kKept = 10;
  std::vector<report::Requester> all;
  for (const auto& [caller, requester] : session.requesters) all.push_back(requester);
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  if (all.size() > kKept) all.resize(kKept);
  return all;
}

report::ArenaUse arena_use(const Session& session) {
  report::ArenaUse use = session.arena;
  use.requesters = top_requesters(session);
  for (const MemoryRef& memory : session.own) {
    use.high_water += memory->region.high_water();
    use.lower_bound += memory->region.peak_live();
    const auto live = memory->region.live();
    use.escapes += live.size();
    for (const auto& block : live) use.escaped_bytes += block.bytes;
    const auto& chunks = state().device(memory->device).chunks;
    std::vector<arena::Address> counted;
    for (const arena::Extent& extent : memory->region.extents()) {
      const arena::Extent chunk = chunks.chunk_at(extent.address);
      if (std::find(counted.begin(), counted.end(), chunk.address) != counted.end()) continue;
      counted.push_back(chunk.address);
      use.chunk_bytes += chunk.bytes;
      ++use.chunks;
    }
    if (!options().report_detail) continue;
    for (const auto& block : live) use.blocks.push_back({block.address, block.bytes, true});
  }
  return use;
}

report::Capture describe(const Session& session, report::Status status, const Census& census) {
  report::Capture data;
  data.count = 1;
  data.site = session.site;
  data.stream = session.origin.handle;
  data.mode = mode_name(session.asked);
  data.status = status;
  data.has_first_cause = session.first_cause.has_value();
  if (session.first_cause) data.first_cause = *session.first_cause;
  data.captured = census.nodes;
  data.native = census.nodes;
  data.native.mem_alloc += session.avoided_allocs;
  data.native.mem_free += session.avoided_frees;
  data.native.memset -= std::min(data.native.memset, session.poisonings);
  data.native.empty -= std::min(data.native.empty, session.empty_frees);
  data.edges = census.shape.edges;
  data.width = census.shape.width;
  data.critical_path = census.shape.critical_path;
  data.kernels = census.kernels;
  data.arena = arena_use(session);
  data.has_graph = options().report_detail && status == report::Status::ok;
  data.graph = census.graph;
  return data;
}

// The same place in the program made the same graph.
bool same(const Record& record, const void* caller, const report::Capture& data) {
  return record.caller == caller && record.data.status == data.status &&
         record.data.native == data.native && record.data.captured == data.captured &&
         record.data.edges == data.edges && record.data.has_first_cause == data.has_first_cause;
}

// The entry shows the capture that needed most.
void refresh(report::ArenaUse& known, report::ArenaUse latest) {
  const std::uint64_t grown = known.grown_in_capture + latest.grown_in_capture;
  if (latest.high_water > known.high_water) known = std::move(latest);
  known.grown_in_capture = grown;
}

report::Site look_up(const void* caller) {
  report::Site site;
  Dl_info info;
  if (caller == nullptr || dladdr(caller, &info) == 0) return site;
  if (info.dli_sname != nullptr) site.symbol = demangled(info.dli_sname);
  if (info.dli_fname != nullptr) site.module = info.dli_fname;
  site.offset = static_cast<std::uint64_t>(static_cast<const char*>(caller) -
                                           static_cast<const char*>(info.dli_fbase));
  return site;
}

}  // namespace

report::Site site_of(const void* caller) {
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    const auto known = s.sites.find(caller);
    if (known != s.sites.end()) return known->second;
  }
  report::Site site = look_up(caller);
  const std::lock_guard lock(s.mutex);
  return s.sites.emplace(caller, std::move(site)).first->second;
}

void count_request(Session& session, Call call, std::size_t bytes) {
  if (!recording()) return;
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    const auto known = session.requesters.find(call.caller);
    if (known != session.requesters.end()) {
      ++known->second.requests;
      known->second.bytes += bytes;
      return;
    }
  }
  const report::Site site = site_of(call.caller);
  const std::lock_guard lock(s.mutex);
  report::Requester& requester = session.requesters[call.caller];
  requester.site = site;
  ++requester.requests;
  requester.bytes += bytes;
}

bool recording() { return !options().report.empty(); }

RecordRef record_capture(const Session& session, report::Status status, const Census& census) {
  if (!recording()) return nullptr;
  State& s = state();
  report::Capture data = describe(session, status, census);
  for (const RecordRef& record : s.records) {
    if (!same(*record, session.begun.caller, data)) continue;
    ++record->data.count;
    refresh(record->data.arena, data.arena);
    return record;
  }
  if (s.records.size() == kMaxRecords) {
    log::write(log::Level::warn, "more than {} different captures: the report leaves out the rest",
               kMaxRecords);
    return nullptr;
  }
  auto record = std::make_shared<Record>();
  data.id = s.records.size() + 1;
  record->data = std::move(data);
  record->caller = session.begun.caller;
  s.records.push_back(record);
  return record;
}

void record_exec(const RecordRef& record) {
  if (record != nullptr) ++record->data.execs;
}

void fill(report::Report& report) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const auto& [number, device] : s.devices) {
    report.arena_held_bytes += device.chunks.total_bytes();
    report.arena_idle_bytes += device.chunks.idle_bytes();
  }
  for (const RecordRef& record : s.records) {
    report::Capture data = record->data;
    const auto microseconds = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000; };
    data.replays.count = record->launches.load();
    data.replays.host_us_p50 = microseconds(record->host_ns.quantile(0.50));
    data.replays.host_us_p99 = microseconds(record->host_ns.quantile(0.99));
    data.replays.host_us_max = microseconds(record->host_ns.max());
    report.captures.push_back(std::move(data));
  }
}

}  // namespace hipgraft::capture
