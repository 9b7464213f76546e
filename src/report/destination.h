// Where reports go: HIPGRAFT_REPORT's destinations.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/options.h"
#include "report/model.h"

namespace hipgraft::report {

// `pattern` with %p as the process id, %e as the program's name and %% as %.
std::string expand(std::string_view pattern, std::uint64_t pid, std::string_view program);

// Replaces the file at `path` in one step: a reader sees the old content or the new, whole. False
// with errno set if that fails; the old file is then untouched.
bool write_file(const std::string& path, std::string_view content);

// `interim` reports replace files only; stderr gets the final one.
enum class Moment : std::uint8_t { interim, final };

// Not thread-safe: the caller serialises.
class Destinations {
 public:
  explicit Destinations(const std::vector<config::Destination>& destinations);

  bool empty() const { return entries_.empty(); }

  // Writes `report` to every destination. %p and %e come from report.pid and report.exe. A
  // destination that fails is named in one warning, and tried again next time in silence.
  void write(const Report& report, Moment moment);

 private:
  struct Entry {
    config::Destination destination;
    bool complained = false;
  };
  std::vector<Entry> entries_;
};

}  // namespace hipgraft::report
