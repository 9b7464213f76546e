#include "cli/program.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "cli/child.h"
#include "cli/elf_file.h"
#include "cli/runtimes.h"

namespace hipgraft::cli {

namespace fs = std::filesystem;

namespace {

constexpr int kMostScripts = 4;  // as the kernel allows
// Functions by which a program brings in code that it is not linked with.
constexpr std::string_view kLoading[] = {
    "dlopen", "dlmopen", "execl",       "execle",       "execlp", "execv",  "execve",
    "execvp", "execvpe", "posix_spawn", "posix_spawnp", "popen",  "system", "fexecve"};
// Parts of the C library import these from one another.
constexpr std::string_view kSystemLibraries[] = {"libc.so",       "libdl.so",    "ld-linux",
                                                 "libpthread.so", "libgcc_s.so", "libstdc++.so"};

// What a script's first line runs; empty if it is none. Looks through `env`.
std::string interpreter_of_script(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  if (file.get() != '#' || file.get() != '!' || !std::getline(file, line)) return {};
  std::istringstream words(line.substr(0, 256));
  std::string word;
  if (!(words >> word) || fs::path(word).filename() != "env") return word;
  while (words >> word) {
    if (!word.starts_with('-') && word.find('=') == std::string::npos) return word;
  }
  return {};
}

// What makes the dynamic linker ignore LD_PRELOAD.
void check_privileges(ProgramFacts& facts) {
  struct stat status {};
  if (stat(facts.path.c_str(), &status) != 0) return;
  const bool user = (status.st_mode & S_ISUID) != 0;
  const bool group = (status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0;
  const bool capable =
      geteuid() != 0 && getxattr(facts.path.c_str(), "security.capability", nullptr, 0) > 0;
  if (!user && !group && !capable) return;
  const std::string kind = user ? "set-uid" : group ? "set-gid" : "given file capabilities";
  if ((user && status.st_uid != getuid()) || (group && status.st_gid != getgid()) || capable) {
    facts.problem = fmt::format(
        "the program is {}: the dynamic linker ignores LD_PRELOAD in it (run a copy without that)",
        kind);
  } else {
    facts.warning = kind + ": works for its owner only";
  }
}

struct Loaded {
  std::string name;
  fs::path path;  // empty: not found
};

// Lines "NAME => PATH (0x...)", "NAME => not found" and "PATH (0x...)".
std::vector<Loaded> parse_list(const std::string& text) {
  constexpr std::string_view kArrow = " => ";
  std::vector<Loaded> list;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(" \t"));
    const std::size_t arrow = line.find(kArrow);
    std::string path = arrow == std::string::npos ? line : line.substr(arrow + kArrow.size());
    const bool found = path != "not found";
    path.resize(std::min(path.size(), path.rfind(" (0x")));
    Loaded loaded{line.substr(0, arrow), {}};
    if (arrow == std::string::npos) loaded.name = fs::path(path).filename().string();
    if (found) loaded.path = path;
    list.push_back(std::move(loaded));
  }
  return list;
}

bool imports_loading(const ElfFile& file) {
  return std::any_of(std::begin(kLoading), std::end(kLoading), [&](std::string_view name) {
    return file.imported.contains(std::string(name));
  });
}

bool may_load(const ElfFile& program, const std::vector<Loaded>& libraries,
              const fs::path& library) {
  if (imports_loading(program)) return true;
  for (const Loaded& loaded : libraries) {
    const bool system =
        std::any_of(std::begin(kSystemLibraries), std::end(kSystemLibraries),
                    [&](std::string_view name) { return loaded.name.starts_with(name); });
    if (system || loaded.path.empty() || loaded.path == library) continue;
    const auto file = read_elf(loaded.path);
    if (file && imports_loading(*file)) return true;
  }
  return false;
}

std::vector<std::string> loader_command(const std::string& interpreter,
                                        const std::vector<Loaded>& libraries) {
  std::vector<std::string> folders;
  for (const Loaded& loaded : libraries) {
    const std::string folder = loaded.path.parent_path().string();
    if (folder.empty() || std::find(folders.begin(), folders.end(), folder) != folders.end()) {
      continue;
    }
    folders.push_back(folder);
  }
  return {interpreter, "--library-path", fmt::format("{}", fmt::join(folders, ":"))};
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Asks the program's dynamic linker what it loads.
void check_libraries(const ElfFile& program, const std::string& preload, const fs::path& library,
                     const Surroundings& surroundings, ProgramFacts& facts) {
  std::error_code error;
  if (!fs::exists(program.interpreter, error)) {
    facts.problem = "its dynamic linker " + program.interpreter + " is missing";
    return;
  }
  // What ldd does. The option --list gives up at the first library that is missing.
  const Outcome outcome =
      run_child({program.interpreter, fs::absolute(facts.path, error).string()},
                environment_with({{"LD_PRELOAD", preload}, {"LD_TRACE_LOADED_OBJECTS", "1"}}),
                surroundings.limit);
  const std::vector<Loaded> libraries = parse_list(outcome.output);
  bool preloaded = false;
  for (const Loaded& loaded : libraries) {
    if (loaded.path.empty()) {
      if (facts.problem.empty()) facts.problem = "its library " + loaded.name + " is not found";
    } else if (is_runtime_name(loaded.name) && facts.runtime.empty()) {
      facts.runtime = fs::weakly_canonical(loaded.path, error);
    } else if (fs::weakly_canonical(loaded.path, error) == library) {
      preloaded = true;
    }
  }
  if (facts.problem.empty() && !outcome.succeeded()) {
    facts.problem = "its dynamic linker " + describe(outcome);
    if (!outcome.errors.empty()) facts.problem += ": " + first_line(outcome.errors);
  }
  if (facts.problem.empty() && !preloaded) {
    facts.problem = "its dynamic linker does not preload the library";
    if (!outcome.errors.empty()) facts.problem += ": " + first_line(outcome.errors);
  }
  facts.loader = loader_command(program.interpreter, libraries);
  facts.may_load = may_load(program, libraries, library);
}

}  // namespace

ProgramFacts examine_program(const std::string& name, const std::string& preload,
                             const fs::path& library, const Surroundings& surroundings) {
  ProgramFacts facts;
  facts.path = find_program(name);
  std::error_code error;
  if (facts.path.empty() || !fs::is_regular_file(facts.path, error)) {
    facts.path.clear();
    facts.problem = "there is no program '" + name + "'";
    return facts;
  }
  if (access(facts.path.c_str(), X_OK) != 0) {
    facts.problem = "the program is not executable";
    return facts;
  }
  for (int i = 0; i < kMostScripts; ++i) {
    const std::string interpreter = interpreter_of_script(facts.path);
    if (interpreter.empty()) break;
    if (facts.script.empty()) facts.script = facts.path;
    facts.path = find_program(interpreter);
    if (facts.path.empty() || !fs::exists(facts.path, error)) {
      facts.problem = "the script's interpreter '" + interpreter + "' is not there";
      return facts;
    }
  }

  const std::optional<ElfFile> file = read_elf(facts.path);
  const std::optional<ElfFile> own = read_elf(library);
  if (!file) {
    facts.problem = "the program is neither an ELF file nor a script";
  } else if (own && (file->machine != own->machine || file->bits != own->bits)) {
    facts.problem = fmt::format("the program is for {}, the library for {}", architecture(*file),
                                architecture(*own));
  } else if (file->interpreter.empty()) {
    facts.problem = "the program is static: there is no dynamic linker to preload anything";
  } else {
    check_libraries(*file, preload, library, surroundings, facts);
    for (const std::string& function : file->imported) {
      if (!is_hip_function(function)) continue;
      ++facts.hip_calls;
      if (is_intercepted(function)) ++facts.intercepted_calls;
    }
    if (facts.problem.empty()) check_privileges(facts);
  }
  return facts;
}

}  // namespace hipgraft::cli
