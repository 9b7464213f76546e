// The system, its agents and their pools: what a program can ask about them.
#include <hsa/hsa_ext_image.h>
#include <hsa/hsa_ven_amd_loader.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

#include "agent.h"
#include "options.h"

namespace softagent {
namespace {

constexpr uint32_t cpu_pool_flags[] = {
    HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED,
    HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED | HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT,
    HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED,
};
constexpr uint32_t gpu_pool_flags[] = {
    HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED,
    HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED,
    HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED,
};
constexpr size_t group_segment_size = 65536;

size_t host_memory_size() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

Agent* make_cpu(uint32_t node) {
  auto* agent = new Agent;
  agent->type = HSA_DEVICE_TYPE_CPU;
  agent->node = node;
  agent->name = "Software CPU";
  for (const uint32_t flags : cpu_pool_flags) {
    agent->pools.push_back({agent, HSA_AMD_SEGMENT_GLOBAL, flags, host_memory_size()});
  }
  return agent;
}

// "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-" -> "gfx90a"
std::string target_of(const std::string& isa) {
  const size_t begin = isa.find("--") + 2;
  return isa.substr(begin, isa.find(':') - begin);
}

Agent* make_gpu(uint32_t gpu, uint32_t node) {
  auto* agent = new Agent;
  agent->type = HSA_DEVICE_TYPE_GPU;
  agent->node = node;
  agent->gpu = gpu;
  agent->isa = options().isa;
  agent->name = target_of(agent->isa);
  for (const uint32_t flags : gpu_pool_flags) {
    agent->pools.push_back({agent, HSA_AMD_SEGMENT_GLOBAL, flags, options().vram});
  }
  agent->pools.push_back({agent, HSA_AMD_SEGMENT_GROUP, 0, group_segment_size});
  return agent;
}

hsa_status_t answer_text(void* out, size_t size, const std::string& text) {
  std::memset(out, 0, size);
  std::memcpy(out, text.data(), std::min(text.size(), size - 1));
  return HSA_STATUS_SUCCESS;
}

hsa_status_t answer_extensions(const Agent& agent, void* out) {
  uint8_t bits[128] = {};
  // Without images the runtime has no pitched and no 3D allocations either.
  if (agent.is_gpu()) bits[0] |= 1u << HSA_EXTENSION_IMAGES;
  return answer(out, bits);
}

uint64_t memory_available(const Agent& agent) {
  return options().vram - std::min(options().vram, agent.bytes_in_use.load());
}

hsa_status_t answer_uuid(const Agent& agent, void* out) {
  char uuid[24];
  std::snprintf(uuid, sizeof uuid, "%s-%016x", agent.is_gpu() ? "GPU" : "CPU",
                0x50f7a6e0u + agent.node);
  return answer_text(out, 21, uuid);
}

hsa_status_t standard_info(const Agent& agent, uint32_t attribute, void* out) {
  const bool gpu = agent.is_gpu();
  switch (attribute) {
    case HSA_AGENT_INFO_NAME:
      return answer_text(out, 64, agent.name);
    case HSA_AGENT_INFO_VENDOR_NAME:
      return answer_text(out, 64, gpu ? "AMD" : "CPU");
    case HSA_AGENT_INFO_FEATURE:
      return answer(out, gpu ? HSA_AGENT_FEATURE_KERNEL_DISPATCH : hsa_agent_feature_t{});
    case HSA_AGENT_INFO_MACHINE_MODEL:
      return answer(out, HSA_MACHINE_MODEL_LARGE);
    case HSA_AGENT_INFO_PROFILE:
      return answer(out, HSA_PROFILE_BASE);
    case HSA_AGENT_INFO_DEFAULT_FLOAT_ROUNDING_MODE:
      return answer(out, HSA_DEFAULT_FLOAT_ROUNDING_MODE_NEAR);
    case HSA_AGENT_INFO_FAST_F16_OPERATION:
      return answer(out, gpu);
    case HSA_AGENT_INFO_WAVEFRONT_SIZE:
      return answer(out, uint32_t{gpu ? 64u : 0u});
    case HSA_AGENT_INFO_WORKGROUP_MAX_DIM: {
      const uint16_t dimensions[3] = {1024, 1024, 1024};
      return answer(out, dimensions);
    }
    case HSA_AGENT_INFO_WORKGROUP_MAX_SIZE:
      return answer(out, uint32_t{1024});
    case HSA_AGENT_INFO_GRID_MAX_DIM:
      return answer(out, hsa_dim3_t{UINT32_MAX, UINT32_MAX, UINT32_MAX});
    case HSA_AGENT_INFO_GRID_MAX_SIZE:
      return answer(out, UINT32_MAX);
    case HSA_AGENT_INFO_FBARRIER_MAX_SIZE:
      return answer(out, uint32_t{32});
    case HSA_AGENT_INFO_QUEUES_MAX:
      return answer(out, uint32_t{128});
    case HSA_AGENT_INFO_QUEUE_MIN_SIZE:
      return answer(out, uint32_t{64});
    case HSA_AGENT_INFO_QUEUE_MAX_SIZE:
      return answer(out, uint32_t{131072});
    case HSA_AGENT_INFO_QUEUE_TYPE:
      return answer(out, HSA_QUEUE_TYPE_MULTI);
    case HSA_AGENT_INFO_NODE:
      return answer(out, agent.node);
    case HSA_AGENT_INFO_DEVICE:
      return answer(out, agent.type);
    case HSA_AGENT_INFO_CACHE_SIZE: {
      const uint32_t sizes[4] = {32768, 4u << 20, 0, 0};
      return answer(out, sizes);
    }
    case HSA_AGENT_INFO_ISA:
      return answer(out, to_handle<hsa_isa_t>(&agent));
    case HSA_AGENT_INFO_EXTENSIONS:
      return answer_extensions(agent, out);
    case HSA_AGENT_INFO_VERSION_MAJOR:
    case HSA_AGENT_INFO_VERSION_MINOR:
      return answer(out, uint16_t{1});
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

hsa_status_t image_info(uint32_t attribute, void* out) {
  switch (attribute) {
    case HSA_EXT_AGENT_INFO_IMAGE_1D_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_1DA_MAX_ELEMENTS:
      return answer(out, uint32_t{16384});
    case HSA_EXT_AGENT_INFO_IMAGE_1DB_MAX_ELEMENTS:
      return answer(out, uint32_t{1u << 27});
    case HSA_EXT_AGENT_INFO_IMAGE_2D_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_2DA_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_2DDEPTH_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_2DADEPTH_MAX_ELEMENTS: {
      const uint32_t extents[2] = {16384, 16384};
      return answer(out, extents);
    }
    case HSA_EXT_AGENT_INFO_IMAGE_3D_MAX_ELEMENTS: {
      const uint32_t extents[3] = {16384, 16384, 8192};
      return answer(out, extents);
    }
    case HSA_EXT_AGENT_INFO_IMAGE_ARRAY_MAX_LAYERS:
      return answer(out, uint32_t{8192});
    case HSA_EXT_AGENT_INFO_MAX_IMAGE_RD_HANDLES:
      return answer(out, uint32_t{128});
    case HSA_EXT_AGENT_INFO_MAX_IMAGE_RORW_HANDLES:
      return answer(out, uint32_t{64});
    case HSA_EXT_AGENT_INFO_MAX_SAMPLER_HANDLERS:
      return answer(out, uint32_t{16});
    case HSA_EXT_AGENT_INFO_IMAGE_LINEAR_ROW_PITCH_ALIGNMENT:
      return answer(out, uint32_t{256});
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

hsa_status_t amd_info(const Agent& agent, uint32_t attribute, void* out) {
  switch (attribute) {
    case HSA_AMD_AGENT_INFO_CHIP_ID:
      return answer(out, uint32_t{agent.is_gpu() ? 0x74a1u : 0u});
    case HSA_AMD_AGENT_INFO_CACHELINE_SIZE:
      return answer(out, uint32_t{agent.is_gpu() ? 128u : 64u});
    case HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT:
    case HSA_AMD_AGENT_INFO_COOPERATIVE_COMPUTE_UNIT_COUNT:
      return answer(out, uint32_t{agent.is_gpu() ? 304u : 1u});
    case HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY:
      return answer(out, uint32_t{2100});
    case HSA_AMD_AGENT_INFO_DRIVER_NODE_ID:
      return answer(out, agent.node);
    case HSA_AMD_AGENT_INFO_MAX_ADDRESS_WATCH_POINTS:
      return answer(out, uint32_t{4});
    case HSA_AMD_AGENT_INFO_BDFID:
      return answer(out, uint32_t{agent.is_gpu() ? 0x400u + 0x100u * agent.node : 0u});
    case HSA_AMD_AGENT_INFO_MEMORY_WIDTH:
      return answer(out, uint32_t{8192});
    case HSA_AMD_AGENT_INFO_MEMORY_MAX_FREQUENCY:
      return answer(out, uint32_t{1300});
    case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
      return answer_text(out, 64, agent.is_gpu() ? "Software HSA agent" : agent.name);
    case HSA_AMD_AGENT_INFO_MAX_WAVES_PER_CU:
      return answer(out, uint32_t{32});
    case HSA_AMD_AGENT_INFO_NUM_SIMDS_PER_CU:
      return answer(out, uint32_t{4});
    case HSA_AMD_AGENT_INFO_NUM_SHADER_ENGINES:
      return answer(out, uint32_t{32});
    case HSA_AMD_AGENT_INFO_NUM_SHADER_ARRAYS_PER_SE:
      return answer(out, uint32_t{1});
    case HSA_AMD_AGENT_INFO_HDP_FLUSH:
      return answer(out, hsa_amd_hdp_flush_t{nullptr, nullptr});
    case HSA_AMD_AGENT_INFO_DOMAIN:
      return answer(out, uint32_t{0});
    case HSA_AMD_AGENT_INFO_COOPERATIVE_QUEUES:
      return answer(out, agent.is_gpu());
    case HSA_AMD_AGENT_INFO_UUID:
      return answer_uuid(agent, out);
    case HSA_AMD_AGENT_INFO_ASIC_REVISION:
      return answer(out, uint32_t{1});
    case HSA_AMD_AGENT_INFO_SVM_DIRECT_HOST_ACCESS:
      return answer(out, false);
    case HSA_AMD_AGENT_INFO_MEMORY_AVAIL:
      return answer(out, memory_available(agent));
    case HSA_AMD_AGENT_INFO_TIMESTAMP_FREQUENCY:
      return answer(out, uint64_t{100000000});
    case HSA_AMD_AGENT_INFO_ASIC_FAMILY_ID:
      return answer(out, uint32_t{141});
    case HSA_AMD_AGENT_INFO_UCODE_VERSION:
    case HSA_AMD_AGENT_INFO_SDMA_UCODE_VERSION:
      return answer(out, uint32_t{1});
    case HSA_AMD_AGENT_INFO_NUM_SDMA_ENG:
      return answer(out, uint32_t{agent.is_gpu() ? 2u : 0u});
    case HSA_AMD_AGENT_INFO_NUM_SDMA_XGMI_ENG:
      return answer(out, uint32_t{0});
    case HSA_AMD_AGENT_INFO_IOMMU_SUPPORT:
      return answer(out, HSA_IOMMU_SUPPORT_NONE);
    case HSA_AMD_AGENT_INFO_NUM_XCC:
      return answer(out, uint32_t{agent.is_gpu() ? 8u : 0u});
    case HSA_AMD_AGENT_INFO_DRIVER_UID:
      return answer(out, uint32_t{agent.node});
    case HSA_AMD_AGENT_INFO_NEAREST_CPU:
      return answer(out, to_handle<hsa_agent_t>(agents().front()));
    case HSA_AMD_AGENT_INFO_MEMORY_PROPERTIES:
    case HSA_AMD_AGENT_INFO_AQL_EXTENSIONS:
      return answer(out, uint64_t{0});
    case HSA_AMD_AGENT_INFO_SCRATCH_LIMIT_MAX:
    case HSA_AMD_AGENT_INFO_SCRATCH_LIMIT_CURRENT:
      return answer(out, uint64_t{4} << 30);
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

hsa_status_t answer_image_extension(uint16_t extension, bool* result) {
  if (!result) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *result = extension == HSA_EXTENSION_IMAGES || extension == HSA_EXTENSION_AMD_LOADER;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t loader_host_address(const void* device_address, const void** host_address) {
  *host_address = device_address;
  return HSA_STATUS_SUCCESS;
}

std::vector<Agent*>* make_agents() {
  auto* made = new std::vector<Agent*>{make_cpu(0)};
  for (uint32_t gpu = 0; gpu < options().gpus; ++gpu) made->push_back(make_gpu(gpu, gpu + 1));
  return made;
}

// Between GPUs PCIe leads over the CPU, XGMI does not.
std::vector<hsa_amd_memory_pool_link_info_t> links_between(const Agent& from, const Agent& to) {
  if (&from == &to) return {};
  const bool peers = from.is_gpu() && to.is_gpu();
  hsa_amd_memory_pool_link_info_t link{};
  link.atomic_support_32bit = true;
  link.atomic_support_64bit = true;
  link.coherent_support = true;
  link.link_type =
      peers && options().xgmi ? HSA_AMD_LINK_INFO_TYPE_XGMI : HSA_AMD_LINK_INFO_TYPE_PCIE;
  link.numa_distance = peers && options().xgmi ? 15 : 20;
  return {peers && !options().xgmi ? 2u : 1u, link};
}

}  // namespace

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

const std::vector<Agent*>& agents() {
  static const std::vector<Agent*>& all = *make_agents();
  return all;
}

Agent* find_agent(hsa_agent_t handle) {
  for (Agent* agent : agents()) {
    if (to_handle<hsa_agent_t>(agent).handle == handle.handle) return agent;
  }
  return nullptr;
}

Pool* find_pool(hsa_amd_memory_pool_t handle) {
  for (Agent* agent : agents()) {
    for (Pool& pool : agent->pools) {
      if (to_handle<hsa_amd_memory_pool_t>(&pool).handle == handle.handle) return &pool;
    }
  }
  return nullptr;
}

bool Agent::charge(size_t bytes) {
  const uint64_t before = bytes_in_use.fetch_add(bytes);
  if (!is_gpu() || (bytes <= options().vram && before <= options().vram - bytes)) return true;
  bytes_in_use.fetch_sub(bytes);
  return false;
}

void Agent::discharge(size_t bytes) { bytes_in_use.fetch_sub(bytes); }

uint64_t device_bytes_in_use(uint32_t gpu) {
  for (const Agent* agent : agents()) {
    if (agent->is_gpu() && agent->gpu == gpu) return agent->bytes_in_use.load();
  }
  return 0;
}

uint64_t device_bytes_in_use() {
  uint64_t sum = 0;
  for (const Agent* agent : agents()) {
    if (agent->is_gpu()) sum += agent->bytes_in_use.load();
  }
  return sum;
}

}  // namespace softagent

using softagent::Agent;
using softagent::answer;
using softagent::Pool;

hsa_status_t hsa_init() {
  SOFTAGENT_CALL();
  softagent::agents();
  return HSA_STATUS_SUCCESS;
}

// Queues and their workers stay: the runtime shuts down while the process ends.
hsa_status_t hsa_shut_down() {
  SOFTAGENT_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_status_string(hsa_status_t status, const char** status_string) {
  SOFTAGENT_CALL();
  if (!status_string) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  switch (static_cast<uint32_t>(status)) {
    case HSA_STATUS_SUCCESS:
      *status_string = "success";
      break;
    case HSA_STATUS_ERROR_INVALID_ARGUMENT:
      *status_string = "an argument is not valid";
      break;
    case HSA_STATUS_ERROR_INVALID_ALLOCATION:
      *status_string = "the allocation is not valid";
      break;
    case HSA_STATUS_ERROR_OUT_OF_RESOURCES:
      *status_string = "out of resources";
      break;
    case HSA_STATUS_ERROR_RESOURCE_FREE:
      *status_string = "the resource could not be freed";
      break;
    case HSA_STATUS_ERROR_MEMORY_FAULT:
      *status_string = "memory fault";
      break;
    case HSA_STATUS_ERROR_NOT_SUPPORTED:
      *status_string = "not supported";
      break;
    default:
      *status_string = "error";
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void* value) {
  SOFTAGENT_CALL_WITH("attribute=0x%x", static_cast<unsigned>(attribute));
  switch (static_cast<uint32_t>(attribute)) {
    case HSA_SYSTEM_INFO_VERSION_MAJOR:
    case HSA_SYSTEM_INFO_VERSION_MINOR:
      return answer(value, uint16_t{1});
    case HSA_SYSTEM_INFO_TIMESTAMP:
      return answer(value, softagent::now_ns());
    case HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY:
      return answer(value, uint64_t{1000000000});
    case HSA_SYSTEM_INFO_SIGNAL_MAX_WAIT:
      return answer(value, UINT64_MAX);
    case HSA_SYSTEM_INFO_ENDIANNESS:
      return answer(value, HSA_ENDIANNESS_LITTLE);
    case HSA_SYSTEM_INFO_MACHINE_MODEL:
      return answer(value, HSA_MACHINE_MODEL_LARGE);
    case HSA_SYSTEM_INFO_EXTENSIONS:
      return softagent::answer_extensions(*softagent::agents().back(), value);
    case HSA_AMD_SYSTEM_INFO_BUILD_VERSION:
      return answer(value, static_cast<const char*>("softagent"));
    case HSA_AMD_SYSTEM_INFO_SVM_SUPPORTED:
    case HSA_AMD_SYSTEM_INFO_SVM_ACCESSIBLE_BY_DEFAULT:
    case HSA_AMD_SYSTEM_INFO_MWAITX_ENABLED:
    case HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED:
    case HSA_AMD_SYSTEM_INFO_XNACK_ENABLED:
      return answer(value, false);
    case HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED:
      return answer(value, softagent::options().virtual_memory);
    case HSA_AMD_SYSTEM_INFO_EXT_VERSION_MAJOR:
      return answer(value, uint16_t{HSA_AMD_INTERFACE_VERSION_MAJOR});
    case HSA_AMD_SYSTEM_INFO_EXT_VERSION_MINOR:
      return answer(value, uint16_t{HSA_AMD_INTERFACE_VERSION_MINOR});
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

hsa_status_t hsa_system_extension_supported(uint16_t extension, uint16_t, uint16_t, bool* result) {
  SOFTAGENT_CALL();
  return softagent::answer_image_extension(extension, result);
}

hsa_status_t hsa_system_major_extension_supported(uint16_t extension, uint16_t,
                                                  uint16_t* version_minor, bool* result) {
  SOFTAGENT_CALL();
  if (version_minor) *version_minor = 0;
  return softagent::answer_image_extension(extension, result);
}

hsa_status_t hsa_agent_extension_supported(uint16_t extension, hsa_agent_t, uint16_t, uint16_t,
                                           bool* result) {
  SOFTAGENT_CALL();
  return softagent::answer_image_extension(extension, result);
}

hsa_status_t hsa_agent_major_extension_supported(uint16_t extension, hsa_agent_t, uint16_t,
                                                 uint16_t* version_minor, bool* result) {
  SOFTAGENT_CALL();
  if (version_minor) *version_minor = 0;
  return softagent::answer_image_extension(extension, result);
}

hsa_status_t hsa_system_get_major_extension_table(uint16_t extension, uint16_t, size_t table_length,
                                                  void* table) {
  SOFTAGENT_CALL_WITH("extension=0x%x", extension);
  if (!table) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (extension != HSA_EXTENSION_AMD_LOADER) return HSA_STATUS_ERROR;
  hsa_ven_amd_loader_1_03_pfn_t functions{};
  functions.hsa_ven_amd_loader_query_host_address = softagent::loader_host_address;
  std::memcpy(table, &functions, std::min(table_length, sizeof functions));
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t, void*), void* data) {
  SOFTAGENT_CALL();
  for (const Agent* agent : softagent::agents()) {
    const hsa_status_t status = callback(softagent::to_handle<hsa_agent_t>(agent), data);
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_agent_get_info(hsa_agent_t handle, hsa_agent_info_t attribute, void* value) {
  const auto number = static_cast<uint32_t>(attribute);
  SOFTAGENT_CALL_WITH("attribute=0x%x", number);
  const Agent* agent = softagent::find_agent(handle);
  if (!agent) return HSA_STATUS_ERROR_INVALID_AGENT;
  if (!value) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (number >= 0xA000) return softagent::amd_info(*agent, number, value);
  if (number >= 0x3000) return softagent::image_info(number, value);
  return softagent::standard_info(*agent, number, value);
}

// The one ISA of a GPU; its handle is the agent's. More than one and the runtime refuses the GPU.
hsa_status_t hsa_agent_iterate_isas(hsa_agent_t handle, hsa_status_t (*callback)(hsa_isa_t, void*),
                                    void* data) {
  SOFTAGENT_CALL();
  const Agent* agent = softagent::find_agent(handle);
  if (!agent) return HSA_STATUS_ERROR_INVALID_AGENT;
  if (!agent->is_gpu()) return HSA_STATUS_SUCCESS;
  return callback(softagent::to_handle<hsa_isa_t>(agent), data);
}

hsa_status_t hsa_isa_get_info_alt(hsa_isa_t isa, hsa_isa_info_t attribute, void* value) {
  SOFTAGENT_CALL_WITH("attribute=%u", static_cast<unsigned>(attribute));
  const Agent* agent = softagent::find_agent(hsa_agent_t{isa.handle});
  if (!agent || !agent->is_gpu()) return HSA_STATUS_ERROR_INVALID_ISA;
  switch (attribute) {
    case HSA_ISA_INFO_NAME_LENGTH:
      return answer(value, static_cast<uint32_t>(agent->isa.size() + 1));
    case HSA_ISA_INFO_NAME:
      std::memcpy(value, agent->isa.c_str(), agent->isa.size() + 1);
      return HSA_STATUS_SUCCESS;
    case HSA_ISA_INFO_WORKGROUP_MAX_SIZE:
      return answer(value, uint32_t{1024});
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

hsa_status_t hsa_amd_agent_iterate_memory_pools(
    hsa_agent_t handle, hsa_status_t (*callback)(hsa_amd_memory_pool_t, void*), void* data) {
  SOFTAGENT_CALL();
  const Agent* agent = softagent::find_agent(handle);
  if (!agent) return HSA_STATUS_ERROR_INVALID_AGENT;
  for (const Pool& pool : agent->pools) {
    const hsa_status_t status = callback(softagent::to_handle<hsa_amd_memory_pool_t>(&pool), data);
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t handle,
                                          hsa_amd_memory_pool_info_t attribute, void* value) {
  SOFTAGENT_CALL_WITH("attribute=%u", static_cast<unsigned>(attribute));
  const Pool* pool = softagent::find_pool(handle);
  if (!pool) return static_cast<hsa_status_t>(HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
  const bool global = pool->segment == HSA_AMD_SEGMENT_GLOBAL;
  switch (attribute) {
    case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
      return answer(value, pool->segment);
    case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
      return answer(value, pool->global_flags);
    case HSA_AMD_MEMORY_POOL_INFO_SIZE:
    case HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE:
      return answer(value, pool->size);
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
      return answer(value, global);
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE:
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT:
      return answer(value, global ? softagent::page_size : size_t{0});
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE:
      return answer(value, global ? softagent::large_page_size : size_t{0});
    case HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL:
      return answer(value, !pool->owner->is_gpu());
    case HSA_AMD_MEMORY_POOL_INFO_LOCATION:
      return answer(value, pool->owner->is_gpu() ? HSA_AMD_MEMORY_POOL_LOCATION_GPU
                                                 : HSA_AMD_MEMORY_POOL_LOCATION_CPU);
  }
  return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_agent_memory_pool_get_info(hsa_agent_t agent_handle,
                                                hsa_amd_memory_pool_t pool_handle,
                                                hsa_amd_agent_memory_pool_info_t attribute,
                                                void* value) {
  SOFTAGENT_CALL_WITH("attribute=%u", static_cast<unsigned>(attribute));
  const Agent* agent = softagent::find_agent(agent_handle);
  if (!agent) return HSA_STATUS_ERROR_INVALID_AGENT;
  const Pool* pool = softagent::find_pool(pool_handle);
  if (!pool) return static_cast<hsa_status_t>(HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
  const bool own = pool->owner == agent;
  const auto links = softagent::links_between(*agent, *pool->owner);
  switch (attribute) {
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS:
      return answer(value, own ? HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT
                               : HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT);
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS:
      return answer(value, static_cast<uint32_t>(links.size()));
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO:
      // One entry a hop.
      if (!own) std::memcpy(value, links.data(), links.size() * sizeof links.front());
      return HSA_STATUS_SUCCESS;
  }
  return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

// Accepted without effect: settings of hardware that is not there.
hsa_status_t hsa_amd_coherency_set_type(hsa_agent_t, hsa_amd_coherency_type_t) {
  SOFTAGENT_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_agent_set_async_scratch_limit(hsa_agent_t, size_t) {
  SOFTAGENT_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_enable_logging(uint8_t*, void*) {
  SOFTAGENT_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_register_system_event_handler(hsa_amd_system_event_callback_t, void*) {
  SOFTAGENT_CALL();
  return HSA_STATUS_SUCCESS;
}
