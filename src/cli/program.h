// A program that is to run under hipgraft, examined without running it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/surroundings.h"

namespace hipgraft::cli {

struct ProgramFacts {
  std::filesystem::path path;    // empty: there is no such program
  std::filesystem::path script;  // that `path` runs; empty: none
  std::string problem;           // why nothing can be preloaded into it; empty: it can
  std::string warning;
  std::filesystem::path runtime;      // that its dynamic linker loads with it; empty: none
  std::vector<std::string> loader;    // runs another program with its dynamic linker, libraries
  std::size_t hip_calls = 0;          // HIP functions that it is linked to,
  std::size_t intercepted_calls = 0;  // and those of them that hipgraft intercepts
  bool may_load = false;              // it can load libraries, or start programs, as it runs
};

// `preload`: the value of LD_PRELOAD. `library`: what is preloaded.
ProgramFacts examine_program(const std::string& name, const std::string& preload,
                             const std::filesystem::path& library,
                             const Surroundings& surroundings);

}  // namespace hipgraft::cli
