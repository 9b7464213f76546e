// What `hipgraft doctor` looks at outside this process; tests put other things there.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace hipgraft::cli {

struct Surroundings {
  std::filesystem::path self = "/proc/self/exe";  // this program, to be started as a child
  std::filesystem::path opt = "/opt";             // where rocm* lie
  std::chrono::milliseconds limit{10'000};        // of each child
};

// A variable's value; "" if unset.
std::string variable(const char* name);

// A command's file, as a shell finds it; empty if there is none.
std::filesystem::path find_program(const std::string& name);

}  // namespace hipgraft::cli
