// Starting a program with libhipgraft.so preloaded.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hipgraft::cli {

inline constexpr int kUsageError = 2;
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;

// The libhipgraft.so that belongs to this program: in the build folder or where it was installed.
std::optional<std::filesystem::path> find_library();

// LD_PRELOAD with `library` first and everything else that `preload` names behind it, except other
// copies of libhipgraft.so: two would both take the program's calls.
std::string preload_with(const std::filesystem::path& library, std::string_view preload);

struct Launch {
  std::filesystem::path library;
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<std::string> command;  // program and arguments
};

// Becomes the program. Returns only if that fails: the exit status, after a message on stderr.
int launch(const Launch& launch);

}  // namespace hipgraft::cli
