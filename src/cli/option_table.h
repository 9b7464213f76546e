#pragma once

#include <string>
#include <string_view>

#include "config/options.h"

namespace hipgraft::cli {

// The option that sets `variable`: HIPGRAFT_ARENA_LIMIT is --arena-limit, HIPGRAFT is --hipgraft.
std::string option_name(std::string_view variable);

// All options as a Markdown table, one line each.
std::string markdown_table();

}  // namespace hipgraft::cli
