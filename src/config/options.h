// Every option of hipgraft: one table row each, parsed once from the environment. The program's
// command line and the README's table are made from the same rows.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "util/log.h"

namespace hipgraft::config {

enum class Arena : std::uint8_t { on, off, noreuse, poison };

enum class ReportFormat : std::uint8_t { text, json };

struct Destination {
  ReportFormat format = ReportFormat::text;
  std::string given;  // as the user wrote it
  // Absolute, so that a program that changes its folder changes nothing; %p and %e are not expanded
  // yet. Empty: stderr.
  std::string path;
};

inline constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

struct Options {
  bool enabled = true;                      // HIPGRAFT
  Arena arena = Arena::on;                  // HIPGRAFT_ARENA
  bool join = true;                         // HIPGRAFT_JOIN
  std::vector<Destination> report;          // HIPGRAFT_REPORT
  bool report_detail = false;               // HIPGRAFT_REPORT_DETAIL
  std::uint64_t arena_chunk = 2ULL << 20;   // HIPGRAFT_ARENA_CHUNK
  std::uint64_t arena_limit = kUnlimited;   // HIPGRAFT_ARENA_LIMIT
  log::Level log_level = log::Level::warn;  // HIPGRAFT_LOG
  std::string runtime;                      // HIPGRAFT_RUNTIME; empty: find it
};

struct Option {
  const char* variable;
  const char* accepted;       // for people: "on, off, noreuse or poison"
  const char* default_value;  // as a person would write it, "unset" for none
  const char* meaning;        // one line
  // Puts the value into the options. False if any of it is bad; what was good has then been taken.
  bool (*parse)(std::string_view value, Options& options);
  // The value in force, as `parse` reads it; empty for none.
  std::string (*print)(const Options& options);
};

std::span<const Option> table();

using Lookup = const char* (*)(const char* name);

struct Loaded {
  Options options;
  std::vector<std::string> warnings;  // one sentence for each bad value and each unknown variable
};

// Reads all options by `lookup`. An empty value counts as unset. `environment` (may be null) is
// searched for variables that look like ours and are not.
Loaded load(Lookup lookup, const char* const* environment);

// What the shim does: options of this process (all defaults if it is set-uid), log level set,
// warnings written.
Options load_environment();

// Variable and value in force, for the report.
std::vector<std::pair<std::string, std::string>> values(const Options& options);

}  // namespace hipgraft::config
