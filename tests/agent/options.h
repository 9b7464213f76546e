// What the environment variables SOFTAGENT_... ask for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace softagent {

struct Options {
  std::string isa = "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-";
  std::vector<std::string> twins;
  uint64_t vram = uint64_t{64} << 30;
  bool virtual_memory = true;
  bool address_reuse = false;
  std::string trace;
  uint32_t default_kernel_us = 0;
  std::unordered_map<std::string, uint32_t> kernel_us;
};

// Read once, at the first call.
const Options& options();

uint32_t kernel_duration_us(const std::string& kernel);

}  // namespace softagent
