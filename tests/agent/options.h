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
  uint32_t gpus = 1;
  bool xgmi = true;  // between the GPUs; else PCIe
  bool virtual_memory = true;
  bool address_reuse = false;
  bool abort_on_fault = true;  // else by the signal itself
  bool random_order = false;
  uint64_t seed = 0;
  std::string trace;
  uint32_t default_kernel_us = 0;
  std::unordered_map<std::string, uint32_t> kernel_us;
};

// Read once, at the first call.
const Options& options();

uint32_t kernel_duration_us(const std::string& kernel);

}  // namespace softagent
