// Every other function of the HSA library: says its name and fails. The HSA headers are not
// included here, so that one signature does for all.
#include <cstdio>

#include "counters.h"

namespace {

constexpr int hsa_status_error = 0x1000;

int not_implemented(const char* function) {
  std::fprintf(stderr, "softagent: %s is not implemented\n", function);
  return hsa_status_error;
}

}  // namespace

#define STUB(function)                \
  extern "C" int function();          \
  int function() {                    \
    SOFTAGENT_CALL();                 \
    return not_implemented(__func__); \
  }

STUB(hsa_agent_get_exception_policies)
STUB(hsa_agent_iterate_caches)
STUB(hsa_agent_iterate_regions)
STUB(hsa_amd_ais_file_read)
STUB(hsa_amd_ais_file_write)
STUB(hsa_amd_async_function)
STUB(hsa_amd_coherency_get_type)
STUB(hsa_amd_deregister_deallocation_callback)
STUB(hsa_amd_image_create)
STUB(hsa_amd_image_get_info_max_dim)
STUB(hsa_amd_interop_map_buffer)
STUB(hsa_amd_interop_unmap_buffer)
STUB(hsa_amd_ipc_signal_attach)
STUB(hsa_amd_ipc_signal_create)
STUB(hsa_amd_memory_migrate)
STUB(hsa_amd_memory_pool_can_migrate)
STUB(hsa_amd_portable_close_dmabuf)
STUB(hsa_amd_portable_export_dmabuf)
STUB(hsa_amd_portable_export_dmabuf_v2)
STUB(hsa_amd_profiling_convert_tick_to_system_domain)
STUB(hsa_amd_queue_cu_get_mask)
STUB(hsa_amd_queue_get_info)
STUB(hsa_amd_queue_intercept_create)
STUB(hsa_amd_queue_intercept_register)
STUB(hsa_amd_register_deallocation_callback)
STUB(hsa_amd_runtime_queue_create_register)
STUB(hsa_amd_signal_wait_all)
STUB(hsa_amd_signal_wait_any)
STUB(hsa_amd_spm_acquire)
STUB(hsa_amd_spm_release)
STUB(hsa_amd_spm_set_dest_buffer)
STUB(hsa_amd_svm_attributes_get)
STUB(hsa_amd_svm_attributes_set)
STUB(hsa_amd_vmem_export_shareable_handle)
STUB(hsa_amd_vmem_import_shareable_handle)
STUB(hsa_cache_get_info)
STUB(hsa_code_object_deserialize)
STUB(hsa_code_object_destroy)
STUB(hsa_code_object_get_info)
STUB(hsa_code_object_get_symbol)
STUB(hsa_code_object_get_symbol_from_name)
STUB(hsa_code_object_iterate_symbols)
STUB(hsa_code_object_reader_create_from_file)
STUB(hsa_code_object_serialize)
STUB(hsa_code_symbol_get_info)
STUB(hsa_executable_create)
STUB(hsa_executable_get_info)
STUB(hsa_executable_get_symbol)
STUB(hsa_executable_global_variable_define)
STUB(hsa_executable_iterate_agent_symbols)
STUB(hsa_executable_iterate_program_symbols)
STUB(hsa_executable_load_code_object)
STUB(hsa_executable_load_program_code_object)
STUB(hsa_executable_readonly_variable_define)
STUB(hsa_executable_validate)
STUB(hsa_executable_validate_alt)
STUB(hsa_ext_image_clear)
STUB(hsa_ext_image_copy)
STUB(hsa_ext_image_create)
STUB(hsa_ext_image_create_with_layout)
STUB(hsa_ext_image_data_get_info)
STUB(hsa_ext_image_data_get_info_with_layout)
STUB(hsa_ext_image_destroy)
STUB(hsa_ext_image_export)
STUB(hsa_ext_image_get_capability)
STUB(hsa_ext_image_get_capability_with_layout)
STUB(hsa_ext_image_import)
STUB(hsa_ext_program_add_module)
STUB(hsa_ext_program_create)
STUB(hsa_ext_program_destroy)
STUB(hsa_ext_program_finalize)
STUB(hsa_ext_program_get_info)
STUB(hsa_ext_program_iterate_modules)
STUB(hsa_ext_sampler_create)
STUB(hsa_ext_sampler_create_v2)
STUB(hsa_ext_sampler_destroy)
STUB(hsa_extension_get_name)
STUB(hsa_isa_compatible)
STUB(hsa_isa_from_name)
STUB(hsa_isa_get_exception_policies)
STUB(hsa_isa_get_info)
STUB(hsa_isa_get_round_method)
STUB(hsa_isa_iterate_wavefronts)
STUB(hsa_memory_allocate)
STUB(hsa_memory_assign_agent)
STUB(hsa_queue_inactivate)
STUB(hsa_region_get_info)
STUB(hsa_signal_group_create)
STUB(hsa_signal_group_destroy)
STUB(hsa_signal_group_wait_any_relaxed)
STUB(hsa_signal_group_wait_any_scacquire)
STUB(hsa_soft_queue_create)
STUB(hsa_system_get_extension_table)
STUB(hsa_wavefront_get_info)
