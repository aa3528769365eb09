#include "emit/wgmma.h"

#include <sstream>

namespace rgen::emit {

namespace {

struct Type {
  const char *name, *k, *types, *sum, *constraint, *options;
};
// f16 and bf16: both factors unchanged in sign, neither transposed
constexpr Type kTypes[] = {{"f16", "k16", "f32.f16.f16", "vf", "+f", ", 1, 1, 0, 0"},
                           {"bf16", "k16", "f32.bf16.bf16", "vf", "+f", ", 1, 1, 0, 0"},
                           {"s8", "k32", "s32.s8.s8", "vi", "+r", ""}};

void piece(std::ostream& o, const Type& t, int n) {
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

std::string wgmma_pieces() {
  std::ostringstream o;
  for (const Type& t : kTypes)
    for (int n = 32; n <= 256; n += 32) piece(o, t, n);
  return o.str();
}

}  // namespace rgen::emit
