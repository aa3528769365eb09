// Primitives of a warp as a vector of 32 lanes: every thread holds one lane of each vector register. No header is needed, so that
// NVRTC takes the text as it is. Control flow is the same in all lanes; what differs between them is inside these functions. What warps
// multiply as tiles is in cuda_staging.h.

//@ @preamble
#if defined(__CUDACC_RTC__)
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif
typedef float vf;  // one lane of a vector of f32
typedef int32_t vi;
typedef uint32_t vu;
#define INLINE static __device__ __forceinline__

//@ kLanes
constexpr int kLanes = 32;
//@ lane
/// This thread's place in its vector.
INLINE int lane() { return threadIdx.x % 32; }
//@ vf_set
INLINE vf vf_set(float x) { return x; }
//@ vi_set
INLINE vi vi_set(int32_t x) { return x; }
//@ vi_iota
INLINE vi vi_iota() { return lane(); }
//@ floor_div
/// Division that rounds towards minus infinity; b > 0.
INLINE int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
//@ floor_mod
INLINE int64_t floor_mod(int64_t a, int64_t b) { return a - b * floor_div(a, b); }

//@ widen_bf16
INLINE vf widen_bf16(uint16_t h) { return __uint_as_float((vu)h << 16); }
//@ narrow_bf16
/// The nearest bf16, ties to even.
INLINE uint16_t narrow_bf16(vf v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint16_t h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(v));
  return h;
#else
  const vu u = __float_as_uint(v);
  return (uint16_t)((v == v ? u + 0x7fff + (u >> 16 & 1) : u | 0x400000) >> 16);
#endif
}
//@ widen_f16
INLINE vf widen_f16(uint16_t h) {
#if defined(__CUDA_ARCH__)
  vf v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
  return v;
#else
  const vu magnitude = (vu)(h & 0x7fff) << 13, sign = (vu)(h & 0x8000) << 16;
  const vf scaled = __uint_as_float(magnitude) * 0x1p112f;  // moves the exponent's bias and normalises subnormals
  return __uint_as_float((magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : __float_as_uint(scaled)) | sign);
#endif
}
//@ narrow_f16
/// The nearest f16, ties to even.
INLINE uint16_t narrow_f16(vf v) {
#if defined(__CUDA_ARCH__)
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
  return h;
#else
  const vu sign = __float_as_uint(v) & 0x80000000u, a = __float_as_uint(v) ^ sign;
  const vu normal = (a + 0xfff + (a >> 13 & 1) - (112u << 23)) >> 13;
  const vu subnormal = __float_as_uint(__uint_as_float(a) + 0.5f) - 0x3f000000u;  // an ulp of 0.5 is the f16 subnormals' unit
  const vu special = a > 0x7f800000u ? 0x7e00 | (a >> 13 & 0x3ff) : 0x7c00;
  return (uint16_t)((a < 0x477ff000u ? a < 0x38800000u ? subnormal : normal : special) | sign >> 16);
#endif
}
