// What the shim and the fake driver have in a CUtensorMap's 128 bytes. Header-free, as gpu_shim.h is.
#pragma once

namespace gpu_shim {

struct alignas(64) TensorMap {
  const unsigned char* base;
  unsigned long long extents[5], strides[4];  ///< elements; bytes
  unsigned box[5], rank, element_bytes;
  signed char lower[2], upper[2];        ///< pixels under a window: of width and height
  unsigned char steps[2], pixels, tf32;  ///< pixels 0: boxes; tf32: floats are rounded
};
static_assert(sizeof(TensorMap) == 128);

}  // namespace gpu_shim
