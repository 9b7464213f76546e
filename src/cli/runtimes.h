// HIP runtimes of this machine, told from their files and from loading them in a child process.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/surroundings.h"

namespace hipgraft::cli {

struct Runtime {
  std::filesystem::path path;
  std::vector<std::string> found_by;  // "ROCM_PATH", "the linker's cache", ...
};

// Each file once, however many ways lead to it. HIPGRAFT_RUNTIME's is the first.
std::vector<Runtime> find_runtimes(const Surroundings& surroundings);

bool is_runtime_name(std::string_view file_name);

struct RuntimeFacts {
  std::string version;         // "7.2.53211", or what soname or file name tell
  std::string version_source;  // "as it says itself", "by its file name"
  std::string not_loaded;      // why it cannot be loaded; empty if it can
  std::string unusable;        // why hipgraft cannot work on it at all; empty if it can
  std::size_t intercepted = 0;
  std::size_t exported = 0;  // functions named hip...
};

// `loader`: a command in front of the child's, to load the runtime as a program's own dynamic
// linker would; may be empty.
RuntimeFacts examine_runtime(const std::filesystem::path& path,
                             const std::vector<std::string>& loader,
                             const Surroundings& surroundings);

// Whether functions.def has hipgraft intercept it.
bool is_intercepted(const std::string& function);

// "hipMalloc", not "hipgraft_version".
bool is_hip_function(std::string_view name);

}  // namespace hipgraft::cli
