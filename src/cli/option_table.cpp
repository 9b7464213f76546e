#include "cli/option_table.h"

#include <fmt/format.h>

#include <cctype>

namespace hipgraft::cli {

std::string option_name(std::string_view variable) {
  constexpr std::string_view kFamily = "HIPGRAFT_";
  if (variable.starts_with(kFamily)) variable.remove_prefix(kFamily.size());
  std::string name = "--";
  for (const char c : variable) {
    name += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

std::string markdown_table() {
  std::string table = "| variable | option | values | default | meaning |\n|---|---|---|---|---|\n";
  for (const config::Option& option : config::table()) {
    table += fmt::format("| `{}` | `{}` | {} | {} | {} |\n", option.variable,
                         option_name(option.variable), option.accepted, option.default_value,
                         option.meaning);
  }
  // A pattern such as *.txt is no emphasis.
  std::string escaped;
  for (const char c : table) {
    if (c == '*') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace hipgraft::cli
