#include "cli/runtimes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <sstream>
#include <system_error>

#include "cli/child.h"
#include "cli/doctor_child.h"
#include "cli/elf_file.h"

namespace hipgraft::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kName = "libamdhip64.so";
constexpr const char* kNeeded[] = {"hipMallocAsync", "hipStreamBeginCapture", "hipStreamEndCapture",
                                   "hipGraphLaunch"};

const std::set<std::string>& intercepted_functions() {
#define HIPGRAFT_INTERCEPT(name, result, parameters) #name,
#define HIPGRAFT_CALL(name, result, parameters)
  static const std::set<std::string> names{
#include "abi/functions.def"
  };
#undef HIPGRAFT_CALL
#undef HIPGRAFT_INTERCEPT
  return names;
}

class Search {
 public:
  void add_file(const fs::path& file, const std::string& found_by) {
    std::error_code error;
    const fs::path path = fs::canonical(file, error);
    if (error || !fs::is_regular_file(path, error)) return;
    auto known = std::find_if(found_.begin(), found_.end(),
                              [&](const Runtime& runtime) { return runtime.path == path; });
    if (known == found_.end()) known = found_.insert(found_.end(), {path, {}});
    auto& ways = known->found_by;
    if (std::find(ways.begin(), ways.end(), found_by) == ways.end()) ways.push_back(found_by);
  }

  void add_folder(const fs::path& folder, const std::string& found_by) {
    for (const fs::path& file : entries(folder)) {
      if (is_runtime_name(file.filename().string())) add_file(file, found_by);
    }
  }

  static std::vector<fs::path> entries(const fs::path& folder) {
    std::vector<fs::path> list;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      list.push_back(entry->path());
    }
    std::sort(list.begin(), list.end());
    return list;
  }

  std::vector<Runtime> found() && { return std::move(found_); }

 private:
  std::vector<Runtime> found_;
};

void add_linker_cache(Search& search, const Surroundings& surroundings) {
  // Not in an ordinary user's PATH.
  fs::path program = find_program("ldconfig");
  if (program.empty()) program = "/sbin/ldconfig";
  const Outcome outcome =
      run_child({program.string(), "-p"}, environment_with({}, {"LD_PRELOAD"}), surroundings.limit);
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t arrow = line.find(" => ");
    if (arrow == std::string::npos) continue;
    const fs::path path = line.substr(arrow + 4);
    if (is_runtime_name(path.filename().string())) search.add_file(path, "the linker's cache");
  }
}

// HIP's number for 7.2.53211 is 70253211.
std::string version_of_number(const std::string& text) {
  unsigned long number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  if (number == 0) return {};
  return fmt::format("{}.{}.{}", number / 10'000'000, number / 100'000 % 100, number % 100'000);
}

std::string version_behind_name(std::string_view file_name) {
  if (!file_name.starts_with(kName) || file_name.size() <= kName.size()) return {};
  return std::string(file_name.substr(kName.size() + 1));
}

void examine_file(const fs::path& path, RuntimeFacts& facts) {
  const auto file = read_elf(path);
  if (!file) {
    facts.unusable = "it is no library";
    return;
  }
  for (const std::string& name : file->defined) {
    if (!is_hip_function(name)) continue;
    ++facts.exported;
    if (is_intercepted(name)) ++facts.intercepted;
  }
  for (const char* name : kNeeded) {
    if (facts.unusable.empty() && !file->defined.contains(name)) {
      facts.unusable = fmt::format("it has no {}", name);
    }
  }
  facts.version = version_behind_name(path.filename().string());
  facts.version_source = "by its file name";
  if (!facts.version.empty()) return;
  facts.version = version_behind_name(file->soname);
  facts.version_source = "by its soname";
}

}  // namespace

bool is_runtime_name(std::string_view file_name) {
  return file_name == kName || !version_behind_name(file_name).empty();
}

bool is_hip_function(std::string_view name) {
  return name.size() > 3 && name.starts_with("hip") &&
         std::isupper(static_cast<unsigned char>(name[3])) != 0;
}

bool is_intercepted(const std::string& function) {
  return intercepted_functions().contains(function);
}

std::vector<Runtime> find_runtimes(const Surroundings& surroundings) {
  Search search;
  search.add_file(variable("HIPGRAFT_RUNTIME"), "HIPGRAFT_RUNTIME");
  std::istringstream folders(variable("LD_LIBRARY_PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    search.add_folder(folder.empty() ? "." : folder, "LD_LIBRARY_PATH");
  }
  if (const fs::path rocm = variable("ROCM_PATH"); !rocm.empty()) {
    for (const char* name : {"lib", "lib64"}) search.add_folder(rocm / name, "ROCM_PATH");
  }
  add_linker_cache(search, surroundings);
  for (const fs::path& rocm : Search::entries(surroundings.opt)) {
    if (!rocm.filename().string().starts_with("rocm")) continue;
    for (const char* name : {"lib", "lib64"}) search.add_folder(rocm / name, rocm.string());
  }
  return std::move(search).found();
}

RuntimeFacts examine_runtime(const fs::path& path, const std::vector<std::string>& loader,
                             const Surroundings& surroundings) {
  RuntimeFacts facts;
  examine_file(path, facts);
  if (!facts.unusable.empty()) return facts;

  std::vector<std::string> command = loader;
  command.insert(command.end(),
                 {surroundings.self.string(), std::string(kRuntimeChild), path.string()});
  const Outcome outcome =
      run_child(command, environment_with({}, {"LD_PRELOAD"}), surroundings.limit);
  const std::string said = version_of_number(value_of(outcome.output, "version"));
  if (!said.empty()) {
    facts.version = said;
    facts.version_source = "as it says itself";
  }
  if (value_of(outcome.output, "loaded").empty()) {
    facts.not_loaded = value_of(outcome.output, "error");
    if (facts.not_loaded.empty()) facts.not_loaded = "a child that loads it " + describe(outcome);
  }
  return facts;
}

}  // namespace hipgraft::cli
