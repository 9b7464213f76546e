#pragma once

#include <string>

#include "report/model.h"

namespace hipgraft::report {

// For people, within 80 columns: a block of lines for each capture.
std::string to_text(const Report& report);

}  // namespace hipgraft::report
