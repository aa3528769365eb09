// What the shim and the fake driver have in a CUtensorMap's 128 bytes. Header-free, as gpu_shim.h is.
#pragma once

namespace gpu_shim {

struct alignas(64) TensorMap {
  const unsigned char* base;
  unsigned long long extents[5], strides[4];  ///< elements; bytes
  unsigned box[5], rank, element_bytes;
};
static_assert(sizeof(TensorMap) == 128);

}  // namespace gpu_shim
