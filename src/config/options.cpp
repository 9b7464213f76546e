#include "config/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <utility>

#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/size.h"

namespace hipgraft::config {

namespace {

// --- Kinds of value -----------------------------------------------------------------------------

template <class T>
struct Choice {
  const char* text;
  T value;
};

constexpr Choice<bool> kSwitch[] = {{"on", true}, {"off", false}};
constexpr Choice<Arena> kArena[] = {
    {"on", Arena::on}, {"off", Arena::off}, {"noreuse", Arena::noreuse}, {"poison", Arena::poison}};
constexpr Choice<log::Level> kLogLevels[] = {
    {"off", log::Level::off},   {"error", log::Level::error}, {"warn", log::Level::warn},
    {"info", log::Level::info}, {"debug", log::Level::debug}, {"trace", log::Level::trace}};

template <auto Member, const auto& Choices>
bool parse_choice(std::string_view value, Options& options) {
  for (const auto& choice : Choices) {
    if (value != choice.text) continue;
    options.*Member = choice.value;
    return true;
  }
  return false;
}

template <auto Member, const auto& Choices>
std::string print_choice(const Options& options) {
  for (const auto& choice : Choices) {
    if (options.*Member == choice.value) return choice.text;
  }
  return {};
}

constexpr std::uint64_t kSmallestChunk = 4096;

bool parse_chunk(std::string_view value, Options& options) {
  const std::optional<std::uint64_t> size = util::parse_size(value);
  if (!size || *size < kSmallestChunk) return false;
  options.arena_chunk = *size;
  return true;
}

std::string print_chunk(const Options& options) { return util::print_size(options.arena_chunk); }

bool parse_limit(std::string_view value, Options& options) {
  const std::optional<std::uint64_t> size =
      value == "unlimited" ? kUnlimited : util::parse_size(value);
  if (!size) return false;
  options.arena_limit = *size;
  return true;
}

std::string print_limit(const Options& options) {
  return options.arena_limit == kUnlimited ? "unlimited" : util::print_size(options.arena_limit);
}

bool parse_runtime(std::string_view value, Options& options) {
  std::string path(value);
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  options.runtime = std::move(path);
  return true;
}

std::string print_runtime(const Options& options) { return options.runtime; }

// --- Report destinations ------------------------------------------------------------------------

std::optional<ReportFormat> format_of(std::string_view path) {
  if (path.ends_with(".trace.json")) return std::nullopt;  // means another format than .json
  if (path.ends_with(".txt")) return ReportFormat::text;
  if (path.ends_with(".json")) return ReportFormat::json;
  return std::nullopt;
}

std::string absolute(std::string_view path) {
  char folder[PATH_MAX];
  if (path.starts_with('/') || getcwd(folder, sizeof folder) == nullptr) return std::string(path);
  return fmt::format("{}/{}", folder, path);
}

std::optional<Destination> parse_destination(std::string_view text) {
  if (text == "-" || text == "stderr")
    return Destination{ReportFormat::text, std::string(text), {}};
  const std::optional<ReportFormat> format = format_of(text);
  if (!format) return std::nullopt;
  return Destination{*format, std::string(text), absolute(text)};
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

bool parse_report(std::string_view value, Options& options) {
  options.report.clear();
  bool good = true;
  while (!value.empty()) {
    const std::size_t comma = std::min(value.find(','), value.size());
    const std::string_view text = trimmed(value.substr(0, comma));
    value.remove_prefix(std::min(comma + 1, value.size()));
    if (text.empty()) continue;
    std::optional<Destination> destination = parse_destination(text);
    if (destination) {
      options.report.push_back(std::move(*destination));
    } else {
      good = false;
    }
  }
  return good;
}

std::string print_report(const Options& options) {
  std::string text;
  for (const Destination& destination : options.report) {
    if (!text.empty()) text += ',';
    text += destination.given;
  }
  return text;
}

// --- The table ----------------------------------------------------------------------------------

constexpr Option kTable[] = {
    {"HIPGRAFT", "on or off", "on", "off: every call passes through and nothing is tracked",
     parse_choice<&Options::enabled, kSwitch>, print_choice<&Options::enabled, kSwitch>},
    {"HIPGRAFT_ARENA", "on, off, noreuse or poison", "on",
     "serve stream-ordered allocations in a capture from the arena; noreuse: hand no byte out "
     "twice "
     "in one capture; poison: fill blocks in the graph when they are allocated and freed, to find "
     "use of stale memory",
     parse_choice<&Options::arena, kArena>, print_choice<&Options::arena, kArena>},
    {"HIPGRAFT_JOIN", "on or off", "on", "join unjoined forks before a capture ends",
     parse_choice<&Options::join, kSwitch>, print_choice<&Options::join, kSwitch>},
    {"HIPGRAFT_REPORT", "-, stderr, *.txt or *.json, several separated by commas", "unset",
     "where the report goes: - and stderr get text, a file what its suffix says; %p in a path is "
     "the "
     "process id, %e the program's name",
     parse_report, print_report},
    {"HIPGRAFT_REPORT_DETAIL", "off or on", "off",
     "list single nodes, edges and blocks in JSON reports",
     parse_choice<&Options::report_detail, kSwitch>,
     print_choice<&Options::report_detail, kSwitch>},
    {"HIPGRAFT_ARENA_CHUNK", "a size of at least 4K, such as 2M or 1G", "2M",
     "how much memory the arena gets from the runtime at a time", parse_chunk, print_chunk},
    {"HIPGRAFT_ARENA_LIMIT", "unlimited or a size, such as 512M or 4G", "unlimited",
     "how much memory the arena may hold; beyond it an allocation in a capture fails with "
     "hipErrorOutOfMemory",
     parse_limit, print_limit},
    {"HIPGRAFT_LOG", "off, error, warn, info, debug or trace", "warn",
     "messages on stderr, up to this level", parse_choice<&Options::log_level, kLogLevels>,
     print_choice<&Options::log_level, kLogLevels>},
    {"HIPGRAFT_RUNTIME", "the path of an existing libamdhip64 file", "unset",
     "use this HIP runtime instead of the one the program loads", parse_runtime, print_runtime},
};

// --- Variables that are not options -------------------------------------------------------------

constexpr std::string_view kFamily = "HIPGRAFT_";

bool is_known(std::string_view variable) {
  // Of the scripts that fetch a runtime.
  if (variable == "HIPGRAFT_CACHE" || variable == "HIPGRAFT_DEBIAN_MIRROR") return true;
  return std::any_of(std::begin(kTable), std::end(kTable),
                     [variable](const Option& option) { return variable == option.variable; });
}

// Single-character edits that turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j < row.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

std::string unknown_variable(std::string_view variable) {
  constexpr std::size_t kTypo = 2;
  constexpr std::size_t kLongestWorthComparing = 64;
  std::string warning = fmt::format("{} is not an option of hipgraft", variable);
  if (variable.size() > kLongestWorthComparing) return warning;
  for (const Option& option : kTable) {
    if (edit_distance(variable, option.variable) > kTypo) continue;
    return fmt::format("{}: did you mean {}?", warning, option.variable);
  }
  return warning;
}

std::string bad_value(const Option& option, std::string_view value, const Options& options) {
  const std::string taken = option.print(options);
  const std::string outcome = taken.empty() ? "ignoring it" : "taking " + taken;
  return fmt::format("{}='{}' is not understood: use {}; {}", option.variable, value,
                     option.accepted, outcome);
}

}  // namespace

std::span<const Option> table() { return kTable; }

Loaded load(Lookup lookup, const char* const* environment) {
  Loaded loaded;
  for (const Option& option : kTable) {
    const char* value = lookup(option.variable);
    if (value == nullptr || *value == '\0') continue;
    if (option.parse(value, loaded.options)) continue;
    loaded.warnings.push_back(bad_value(option, value, loaded.options));
  }
  if (environment == nullptr) return loaded;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::string_view variable = entry.substr(0, entry.find('='));
    if (!variable.starts_with(kFamily) || is_known(variable)) continue;
    loaded.warnings.push_back(unknown_variable(variable));
  }
  return loaded;
}

Options load_environment() {
  // secure_getenv guards the values; the walk through the environment needs the same guard.
  const bool trusted = getauxval(AT_SECURE) == 0;
  Loaded loaded = load([](const char* name) -> const char* { return secure_getenv(name); },
                       trusted ? environ : nullptr);
  log::set_level(loaded.options.log_level);
  for (const std::string& warning : loaded.warnings) {
    log::write(log::Level::warn, "{}", warning);
  }
  return std::move(loaded.options);
}

std::vector<std::pair<std::string, std::string>> values(const Options& options) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Option& option : kTable) values.emplace_back(option.variable, option.print(options));
  return values;
}

}  // namespace hipgraft::config
