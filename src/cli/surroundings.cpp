#include "cli/surroundings.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <system_error>

namespace hipgraft::cli {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::filesystem::path find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  std::istringstream folders(variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path candidate = std::filesystem::path(folder) / name;
    std::error_code error;
    if (std::filesystem::is_regular_file(candidate, error) &&
        access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return {};
}

}  // namespace hipgraft::cli
