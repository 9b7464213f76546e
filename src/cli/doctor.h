// `hipgraft doctor`: will hipgraft work here, for this program, and if not, why?
#pragma once

#include <string>
#include <vector>

#include "cli/surroundings.h"

namespace hipgraft::cli {

struct DoctorRequest {
  std::filesystem::path library;     // empty: it was not found
  std::vector<std::string> command;  // empty: no program
  Surroundings surroundings;
};

// Prints its findings; the last line is the verdict. Returns the exit status: 0 will work, 1 not.
int doctor(const DoctorRequest& request);

}  // namespace hipgraft::cli
