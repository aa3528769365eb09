// The functions of NVIDIA's driver that rgen calls, bound from a libcuda that is opened at run time: neither building nor linking rgen
// needs CUDA. Types and values are those of cuda.h (CUDA 11.2 and later). Internal to run and driver: cuda_device.h is the interface.
#pragma once
#include <cstddef>

namespace rgen::run::cuda {

using Result = int;  // CUresult
using Device = int;  // CUdevice
using Context = struct OpaqueContext*;
using Module = struct OpaqueModule*;
using Function = struct OpaqueFunction*;
using Stream = struct OpaqueStream*;
using Event = struct OpaqueEvent*;
using Pointer = unsigned long long;  // CUdeviceptr

constexpr Result success = 0, invalid_value = 1, out_of_memory = 2, deinitialized = 4, no_device = 100, invalid_device = 101,
                 invalid_image = 200, invalid_context = 201, no_binary_for_gpu = 209, invalid_handle = 400, not_found = 500;

enum Attribute : int {
  max_threads_per_block = 1,
  warp_size = 10,
  clock_rate = 13,  // kHz
  multiprocessor_count = 16,
  memory_clock_rate = 36,        // kHz
  global_memory_bus_width = 37,  // bits
  l2_cache_size = 38,
  max_threads_per_multiprocessor = 39,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_memory_per_multiprocessor = 81,
  max_registers_per_multiprocessor = 82,
  max_shared_memory_per_block_optin = 97,
  max_blocks_per_multiprocessor = 106,
};
/// CUtensorMap, and the values of cuTensorMapEncodeTiled's enumerations that rgen uses.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};
enum MapType : int { map_u8 = 0, map_u16 = 1, map_s32 = 3, map_f16 = 6, map_f32 = 7, map_bf16 = 9, map_tf32 = 11 };
constexpr int map_swizzle_128 = 3, map_l2_256 = 3;

constexpr int function_max_dynamic_shared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr unsigned stream_non_blocking = 1;

/// Named as in cuda.h; where cuda.h renames a function to a later version of it, the member is that version (`bind` in cuda_device.cpp).
struct Api {
  Result (*init)(unsigned flags);
  Result (*driver_version)(int*);
  Result (*error_name)(Result, const char**);
  Result (*error_string)(Result, const char**);

  Result (*device_count)(int*);
  Result (*device_get)(Device*, int ordinal);
  Result (*device_name)(char*, int size, Device);
  Result (*device_memory)(size_t*, Device);
  Result (*device_attribute)(int*, int attribute, Device);

  Result (*context_get)(Context*);
  Result (*context_push)(Context);
  Result (*context_pop)(Context*);
  Result (*context_device)(Device*);
  Result (*context_id)(Context, unsigned long long*);  ///< nullptr before CUDA 12
  Result (*primary_state)(Device, unsigned* flags, int* active);
  Result (*primary_retain)(Context*, Device);
  Result (*primary_release)(Device);

  Result (*module_load)(Module*, const void* image);
  Result (*module_unload)(Module);
  Result (*module_function)(Function*, Module, const char* name);
  Result (*function_set)(Function, int attribute, int value);
  Result (*launch)(Function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                   unsigned shared_bytes, Stream, void** arguments, void** extra);

  /// nullptr before CUDA 12. Strides in bytes, but of the innermost dimension; element strides of 1.
  Result (*encode_map)(TensorMap*, int type, unsigned rank, void* address, const unsigned long long* extents,
                       const unsigned long long* strides, const unsigned* box, const unsigned* element_strides, int interleave, int swizzle,
                       int l2_promotion, int fill);

  Result (*encode_pixels)(TensorMap*, int type, unsigned rank, void* address, const unsigned long long* extents,
                          const unsigned long long* strides, const int* lower, const int* upper, unsigned channels, unsigned pixels,
                          const unsigned* element_strides, int interleave, int swizzle, int l2_promotion, int fill);

  Result (*allocate)(Pointer*, size_t bytes);
  Result (*free)(Pointer);
  Result (*copy_to_device)(Pointer, const void*, size_t bytes, Stream);
  Result (*copy_to_host)(void*, Pointer, size_t bytes, Stream);
  Result (*fill)(Pointer, unsigned char value, size_t bytes, Stream);

  Result (*stream_create)(Stream*, unsigned flags);
  Result (*stream_destroy)(Stream);
  Result (*stream_wait)(Stream);
  Result (*event_create)(Event*, unsigned flags);
  Result (*event_destroy)(Event);
  Result (*event_record)(Event, Stream);
  Result (*event_wait)(Event);
  Result (*event_elapsed)(float* ms, Event from, Event to);
};

}  // namespace rgen::run::cuda
