#include "cli/launch.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <system_error>

#include <unistd.h>

namespace hipgraft::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLibraryName = "libhipgraft.so";
constexpr std::string_view kPreloadSeparators = " :";

std::optional<fs::path> own_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return std::nullopt;
  return program.parent_path();
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::optional<fs::path> find_library() {
  const std::optional<fs::path> folder = own_folder();
  if (!folder) return std::nullopt;
  const fs::path prefix = folder->parent_path();
  // Beside the program; as built (src/cli/hipgraft); as installed (bin/hipgraft).
  const fs::path folders[] = {*folder,          prefix,
                              prefix / "entry", prefix / HIPGRAFT_LIBDIR,
                              prefix / "lib",   prefix / "lib64"};
  for (const fs::path& candidate : folders) {
    std::error_code error;
    const fs::path library = fs::canonical(candidate / kLibraryName, error);
    if (!error && fs::is_regular_file(library, error)) return library;
  }
  return std::nullopt;
}

std::string preload_with(const fs::path& library, std::string_view preload) {
  std::string list = library.string();
  while (!preload.empty()) {
    const std::size_t end = std::min(preload.find_first_of(kPreloadSeparators), preload.size());
    const std::string_view entry = preload.substr(0, end);
    preload.remove_prefix(std::min(end + 1, preload.size()));
    if (entry.empty() || entry == library.native() || file_name(entry) == kLibraryName) continue;
    list += ':';
    list += entry;
  }
  return list;
}

int launch(const Launch& launch) {
  const std::string library = launch.library.string();
  if (library.find_first_of(kPreloadSeparators) != std::string::npos) {
    std::cerr << "hipgraft: the library's path '" << library
              << "' holds a blank or a colon, which LD_PRELOAD cannot carry: move it, or name "
                 "another copy with --library\n";
    return kUsageError;
  }
  const char* preload = std::getenv("LD_PRELOAD");
  setenv("LD_PRELOAD", preload_with(launch.library, preload == nullptr ? "" : preload).c_str(), 1);
  for (const auto& [variable, value] : launch.variables) {
    setenv(variable.c_str(), value.c_str(), 1);
  }

  std::vector<char*> arguments;
  for (const std::string& argument : launch.command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));  // execvp does not write to them
  }
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  const int error = errno;
  std::cerr << "hipgraft: cannot start '" << launch.command.front() << "': " << std::strerror(error)
            << '\n';
  return error == ENOENT ? kNotFound : kNotExecutable;
}

}  // namespace hipgraft::cli
