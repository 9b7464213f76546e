#pragma once

#include <string>

#include "report/model.h"

namespace hipgraft::report {

// One document of schema "hipgraft.report/1" (report.schema.json), on one line.
std::string to_json(const Report& report);

}  // namespace hipgraft::report
