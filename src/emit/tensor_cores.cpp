#include "emit/tensor_cores.h"

#include <sstream>

namespace rgen::emit {

namespace {

struct Mma {
  const char *name, *shape, *types, *element, *sum, *constraint;
};
constexpr Mma kMma[] = {
    {"f16", "m16n8k16", "f32.f16.f16.f32", "float", "vf", "+f"},   {"bf16", "m16n8k16", "f32.bf16.bf16.f32", "float", "vf", "+f"},
    {"tf32", "m16n8k8", "f32.tf32.tf32.f32", "float", "vf", "+f"}, {"s8", "m16n8k32", "s32.s8.s8.s32", "int32_t", "vi", "+r"},
    {"u8s8", "m16n8k32", "s32.u8.s8.s32", "int32_t", "vi", "+r"},  {"u8", "m16n8k32", "s32.u8.u8.s32", "int32_t", "vi", "+r"}};

void piece(std::ostream& o, const Mma& t) {
  const std::string one = std::string("mma_") + t.shape + "_" + t.name, out = std::string("\"") + t.constraint + "\"";
  o << "//@ " << one << "\n#if defined(__CUDACC__)\nINLINE void " << one << "(" << t.element
    << "* c, const vu* a, const vu* b) {\n  asm volatile(\"mma.sync.aligned." << t.shape << ".row.col." << t.types
    << " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"\n               : " << out << "(c[0]), " << out << "(c[1]), "
    << out << "(c[2]), " << out << "(c[3])\n"
    << "               : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1]));\n}\n#endif\n"
    << "//@ mma_" << t.name << "\nINLINE void mma_" << t.name << "(" << t.sum << "* c, const vu* a, const vu* b) {\n"
    << "  fragment_products(c, a, b, [](" << t.sum << "* d, const vu* x, const vu* y) { " << one << "(d, x, y); });\n}\n";
}

struct Wgmma {
  const char *name, *k, *types, *sum, *constraint, *options;
};
// of floats both factors unchanged in sign; of 16 bits neither transposed
constexpr Wgmma kWgmma[] = {{"f16", "k16", "f32.f16.f16", "vf", "+f", ", 1, 1, 0, 0"},
                            {"bf16", "k16", "f32.bf16.bf16", "vf", "+f", ", 1, 1, 0, 0"},
                            {"tf32", "k8", "f32.tf32.tf32", "vf", "+f", ", 1, 1"},
                            {"s8", "k32", "s32.s8.s8", "vi", "+r", ""}};

void piece(std::ostream& o, const Wgmma& t, int n) {
  const int sums = n / 2;  // of a thread
  o << "//@ wgmma_" << t.name << "_n" << n << "\n#if defined(__CUDACC__)\ntemplate <>\n__device__ __forceinline__ void wgmma_" << t.name
    << "<" << n << ">(" << t.sum << "* c, uint64_t a, uint64_t b) {\n  asm volatile(\"wgmma.mma_async.sync.aligned.m64n" << n << t.k << "."
    << t.types << " {\"";
  for (int i = 0; i < sums; i += 16) {
    o << "\n               \"";
    for (int j = i; j < i + 16; ++j) o << "%" << j << (j + 1 < sums ? ", " : "");
    o << "\"";
  }
  o << "\n               \"}, %" << sums << ", %" << sums + 1 << ", 1" << t.options << ";\"\n               : ";
  for (int i = 0; i < sums; ++i) o << (i == 0 ? "" : i % 8 ? ", " : ",\n                 ") << "\"" << t.constraint << "\"(c[" << i << "])";
  o << "\n               : \"l\"(a), \"l\"(b));\n}\n#endif\n";
}

}  // namespace

std::string tensor_core_pieces() {
  std::ostringstream o;
  for (const Mma& t : kMma) piece(o, t);
  for (const Wgmma& t : kWgmma)
    for (int n = 32; n <= 256; n += 32) piece(o, t, n);
  return o.str();
}

}  // namespace rgen::emit
