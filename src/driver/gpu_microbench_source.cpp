// The CUDA text of the measurements. Every argument is 8 bytes wide. Operands come from memory and results go there, so that nothing is
// computed beforehand or left out; eight independent chains a thread hide an operation's latency, one chain shows it.
#include "driver/gpu_microbench.h"
#include "emit/prelude.h"

namespace rgen::driver {

namespace {

/// One operation on `v[j]`, with the values x and y (near 1) and i; the other chains are `v[(j + 1) % 8]`.
struct Text {
  const char *name, *figure, *type, *step;
  double operations = 1, extra_mul = 0;
  bool chain = false;
};

constexpr Text kOperations[] = {
    {"fma", "fma", "float", "v[j] = vf_fma(v[j], x, y)", 1, 0, true},
    {"add", "add", "float", "v[j] = v[j] + x"},
    {"mul", "mul", "float", "v[j] = v[j] * x"},
    {"div", "div", "float", "v[j] = vf_div(x, v[j])"},
    {"sqrt", "sqrt", "float", "v[j] = vf_sqrt(v[j])"},
    {"max", "max", "float", "v[j] = vf_max(v[j], v[(j + 1) % 8])"},
    {"exp", "exp", "float", "v[j] = vf_exp(-v[j])"},
    {"log", "log", "float", "v[j] = vf_log(vf_abs(v[j]) * x)", 1, 1},
    {"tanh", "tanh", "float", "v[j] = vf_tanh(v[j])"},
    {"erf", "erf", "float", "v[j] = vf_erf(v[j])"},
    {"sigmoid", "sigmoid", "float", "v[j] = vf_sigmoid(v[j])"},
    {"pow", "pow", "float", "v[j] = vf_pow(v[j], y)"},
    {"floor", "floor", "float", "v[j] = vf_floor(v[j] * x)", 1, 1},
    {"choose", "compare", "float", "v[j] = vf_select(vf_lt(x, v[j]), v[(j + 1) % 8], y)", 2},
    {"convert", "convert", "float", "v[j] = vf_from_vi(vi_from_vf_rne(v[j] * x))", 2, 0.5},
    {"shuffle", "shuffle", "float", "v[j] = __shfl_xor_sync(0xffffffffu, v[j], 1)"},
    {"int_div", "int_div", "unsigned", "v[j] = i / (v[j] | 1u)"},
    {"dp4a", "dp4a", "int", "v[j] = __dp4a(i, i, v[j])", 1, 0, true},
};

struct Fragments {
  const char *figure, *name, *function, *types, *type, *constraint;
};
constexpr Fragments kFragments[] = {
    {"mma.sync f16", "mma_f16", "mma_m16n8k16_f16", "m16n8k16.row.col.f32.f16.f16.f32", "float", "+f"},
    {"mma.sync bf16", "mma_bf16", "mma_m16n8k16_bf16", "m16n8k16.row.col.f32.bf16.bf16.f32", "float", "+f"},
    {"mma.sync tf32", "mma_tf32", "mma_m16n8k8_tf32", "m16n8k8.row.col.f32.tf32.tf32.f32", "float", "+f"},
    {"mma.sync s8", "mma_s8", "mma_m16n8k32_s8", "m16n8k32.row.col.s32.s8.s8.s32", "int", "+r"},
};

/// A kernel of `chains` accumulators a thread; a block's time is from one barrier to the next.
std::string timed(const std::string& name, const std::string& values, const std::string& step, const std::string& sum) {
  return "extern \"C\" __global__ void __launch_bounds__(1024) " + name +
         "(const float* operands, float* results, int64_t* cycles, int64_t iterations) {\n  const float x = operands[0], y = operands[1];\n"
         "  const int i = (int)operands[2] + (int)threadIdx.x;\n" +
         values + "  __syncthreads();\n  const int64_t start = clock64();\n  for (int64_t n = 0; n < iterations; ++n) {\n" + step +
         "  }\n  __syncthreads();\n  const int64_t end = clock64();\n" + sum +
         "  if (threadIdx.x == 0) cycles[blockIdx.x] = end - start;\n  (void)x, (void)y, (void)i;\n}\n";
}

std::string operation(const Text& t, const char* kind, int chains) {
  const std::string n = std::to_string(chains), type = t.type;
  const std::string loop = "    for (int j = 0; j < " + n + "; ++j) ";
  const std::string start = type == "float" ? "x + 0.001f * (float)(j + i % 32)" : "(" + type + ")(i + j)";
  return timed(std::string(kind) + t.name, "  " + type + " v[8];\n#pragma unroll\n  for (int j = 0; j < 8; ++j) v[j] = " + start + ";\n",
               "#pragma unroll\n    for (int u = 0; u < 4; ++u) {\n#pragma unroll\n  " + loop + t.step + ";\n    }\n",
               "  float sum = 0;\n#pragma unroll\n  for (int j = 0; j < 8; ++j) sum += (float)v[j];\n  results[threadIdx.x] = sum;\n");
}

std::string fragments(const Fragments& f, const char* kind, int chains) {
  const std::string n = std::to_string(chains), type = f.type;
  return timed(std::string(kind) + f.name,
               "  " + type + " c[" + n + "][4] = {};\n  const unsigned a[4] = {(unsigned)i, 0x3c003c00u, (unsigned)i, 0x3c003c00u}, " +
                   "b[2] = {(unsigned)i, (unsigned)i};\n",
               "#pragma unroll\n    for (int j = 0; j < " + n + "; ++j) " + f.function + "(c[j], a, b);\n",
               "  float sum = 0;\n#pragma unroll\n  for (int j = 0; j < " + n +
                   "; ++j) sum += (float)(c[j][0] + c[j][1] + c[j][2] + c[j][3]);\n  results[threadIdx.x] = sum;\n");
}

std::string multiply(const Fragments& f) {
  const std::string type = f.type, k = std::string("\"") + f.constraint + "\"";
  std::string outputs;
  for (int i = 0; i < 4; ++i) outputs += (i ? ", " : "") + k + "(c[" + std::to_string(i) + "])";
  return "INLINE void " + std::string(f.function) + "(" + type +
         "* c, const unsigned* a, const unsigned* b) {\n  asm volatile(\"mma.sync.aligned." + f.types +
         " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"\n               : " + outputs +
         "\n               : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1]));\n}\n";
}

/// Chases follow addresses that the host has written. Streams move 16 bytes a thread, four of them at once, through memory of mask + 1
/// times 16 bytes, round and round.
constexpr const char* kMemory = R"(
extern "C" __global__ void nothing(const float* operands) { (void)operands; }

extern "C" __global__ void chase_l1(void* const* start, int64_t* cycles, int64_t hops) {
  void* const* p = start;
  for (int64_t n = 0; n < hops; ++n) p = (void* const*)__ldca((const unsigned long long*)p);
  const int64_t begin = clock64();
  for (int64_t n = 0; n < hops; ++n) p = (void* const*)__ldca((const unsigned long long*)p);
  cycles[0] = clock64() - begin + (p == nullptr);
}
extern "C" __global__ void chase_l2(void* const* start, int64_t* cycles, int64_t hops) {
  void* const* p = start;
  const int64_t begin = clock64();
  for (int64_t n = 0; n < hops; ++n) p = (void* const*)__ldcg((const unsigned long long*)p);
  cycles[0] = clock64() - begin + (p == nullptr);
}
extern "C" __global__ void chase_shared(int64_t* cycles, int64_t hops) {
  __shared__ int ring[256];
  for (int j = threadIdx.x; j < 256; j += 32) ring[j] = (j + 37) % 256;
  __syncthreads();
  int at = threadIdx.x;
  const int64_t begin = clock64();
  for (int64_t n = 0; n < hops; ++n) at = *(volatile int*)&ring[at];
  const int64_t end = clock64();
  if (threadIdx.x == 0) cycles[0] = end - begin + (at < 0);
}

extern "C" __global__ void __launch_bounds__(1024) read_shared(float* results, int64_t* cycles, int64_t iterations) {
  __shared__ float s[8192];
  for (int j = threadIdx.x; j < 8192; j += 1024) s[j] = (float)j;
  __syncthreads();
  float sum = 0;
  const int64_t begin = clock64();
  for (int64_t n = 0; n < iterations; ++n) {
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += ((volatile float*)s)[1024 * j + threadIdx.x];
  }
  __syncthreads();
  if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - begin;
  results[threadIdx.x] = sum;
}
extern "C" __global__ void __launch_bounds__(1024) write_shared(float* results, int64_t* cycles, int64_t iterations) {
  __shared__ float s[8192];
  __syncthreads();
  const int64_t begin = clock64();
  for (int64_t n = 0; n < iterations; ++n) {
#pragma unroll
    for (int j = 0; j < 8; ++j) ((volatile float*)s)[1024 * j + threadIdx.x] = (float)j;
  }
  __syncthreads();
  if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - begin;
  results[threadIdx.x] = s[threadIdx.x];
}

// Eight times 16 bytes a thread are under way: with four, 64 KiB an SM, an H200 reads half of what its second-level cache gives.
extern "C" __global__ void __launch_bounds__(1024) read_global(const float4* p, float* results, int64_t mask, int64_t start, int64_t iterations) {
  const int64_t step = (int64_t)gridDim.x * 1024;
  int64_t i = start + (int64_t)blockIdx.x * 1024 + threadIdx.x;
  float sum = 0;
  for (int64_t n = 0; n < iterations; ++n, i += 8 * step) {
    float4 v[8];
#pragma unroll
    for (int u = 0; u < 8; ++u) v[u] = __ldcg(p + (i + u * step & mask));
#pragma unroll
    for (int u = 0; u < 8; ++u) sum += v[u].x + v[u].y + v[u].z + v[u].w;
  }
  if (sum == 1.25f) results[threadIdx.x] = sum;
}
extern "C" __global__ void __launch_bounds__(1024) write_global(float4* p, float* results, int64_t mask, int64_t start, int64_t iterations) {
  const int64_t step = (int64_t)gridDim.x * 1024;
  int64_t i = start + (int64_t)blockIdx.x * 1024 + threadIdx.x;
  for (int64_t n = 0; n < iterations; ++n, i += 8 * step) {
    const float4 v = make_float4((float)n, 1.f, 2.f, 3.f);
#pragma unroll
    for (int u = 0; u < 8; ++u) p[i + u * step & mask] = v;
  }
  (void)results;
}
extern "C" __global__ void __launch_bounds__(1024) copy_global(float4* p, float* results, int64_t mask, int64_t start, int64_t iterations) {
  const int64_t step = (int64_t)gridDim.x * 1024;
  int64_t i = start + (int64_t)blockIdx.x * 1024 + threadIdx.x;
  for (int64_t n = 0; n < iterations; ++n, i += 8 * step) {
    float4 v[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) v[u] = __ldcg(p + (i + u * step & mask));
#pragma unroll
    for (int u = 0; u < 4; ++u) p[i + (u + 4) * step & mask] = v[u];
  }
  (void)results;
}
)";

constexpr int kChains = 8, kUnrolled = 4;

}  // namespace

std::vector<GpuOperation> microbench_operations(bool tensor_cores) {
  std::vector<GpuOperation> all;
  for (const Text& t : kOperations) all.push_back({t.figure, t.name, t.operations * kChains * kUnrolled, t.extra_mul, t.chain});
  if (tensor_cores)
    for (const Fragments& f : kFragments) all.push_back({f.figure, f.name, kChains, 0, true});
  return all;
}

std::string microbench_source(bool tensor_cores) {
  std::string text =
      emit::prelude_text(emit::Simd::cuda, {"vf_fma", "vf_div", "vf_sqrt", "vf_max", "vf_exp", "vf_log", "vf_abs", "vf_tanh", "vf_erf",
                                            "vf_sigmoid", "vf_pow", "vf_floor", "vf_select", "vf_lt", "vf_from_vi", "vi_from_vf_rne"});
  for (const Text& t : kOperations) {
    text += operation(t, "rate_", kChains);
    if (t.chain) text += operation(t, "chain_", 1);
  }
  if (tensor_cores) {
    text += "#if defined(__CUDACC__)\n";
    for (const Fragments& f : kFragments) text += multiply(f);
    text += "#endif\n";
    for (const Fragments& f : kFragments) text += fragments(f, "rate_", kChains) + fragments(f, "chain_", 1);
  }
  return text + kMemory;
}

}  // namespace rgen::driver
