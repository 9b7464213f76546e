// What `hipgraft doctor` starts itself as, to see a process from within. Each prints lines
// key=value.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hipgraft::cli {

inline constexpr std::string_view kPreloadChild = "doctor-preload";  // who answers hipgraft's names
inline constexpr std::string_view kRuntimeChild = "doctor-runtime";  // loads the library named next

// The exit status, if the arguments are those of such a child.
std::optional<int> run_doctor_child(const std::vector<std::string>& arguments);

}  // namespace hipgraft::cli
