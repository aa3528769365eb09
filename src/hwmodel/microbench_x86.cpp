#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "hwmodel/microbench.h"
#include "hwmodel/profile_document.h"

namespace rgen::hw {

namespace {

// Registers 0…11 take results (12 chains cover a latency of 6 at 2 a cycle), 12 holds gather indices, 14 and 15 operands (1.5 and 1.25:
// no denormals, no overflow, and harmless as pairs of bf16 too). %1 is the scratch area.
#define CLOBBERS                                                                                                                         \
  "memory", "cc", "rax", "rcx", "rdx", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
      "xmm12", "xmm13", "xmm14", "xmm15"
#define EACH(INSTRUCTION) ".irp r,0,1,2,3,4,5,6,7,8,9,10,11\n" INSTRUCTION "\n.endr\n"
#define REPEAT(INSTRUCTION) ".rept 16\n" INSTRUCTION "\n.endr\n"
#define LOOP(NAME, V, BODY)                                                                                                 \
  void NAME(int64_t iterations, void* scratch) {                                                                            \
    __asm__ volatile("vbroadcastss (%1), %%" V "14\n vbroadcastss 4(%1), %%" V "15\n vmovups 64(%1), %%" V                  \
                     "12\n" EACH("vmovaps %%" V "14, %%" V "\\r") ".p2align 5\n1:\n" BODY "decq %0\n jnz 1b\n vzeroupper\n" \
                     : "+r"(iterations)                                                                                     \
                     : "r"(scratch)                                                                                         \
                     : CLOBBERS);                                                                                           \
  }
#define BINARY(NAME, V, INSTRUCTION) LOOP(NAME, V, EACH(INSTRUCTION " %%" V "14, %%" V "15, %%" V "\\r"))
#define UNARY(NAME, V, INSTRUCTION) LOOP(NAME, V, EACH(INSTRUCTION " %%" V "14, %%" V "\\r"))
// With as many multiply-adds: as long as without them on ports of its own.
#define BESIDE(NAME, V, INSTRUCTION) \
  LOOP(beside_##NAME, V, EACH("vfmadd231ps %%" V "14, %%" V "15, %%" V "\\r\n " INSTRUCTION "%%" V "14, %%" V "13"))
// Into what it reads.
#define INTO(NAME, V, INSTRUCTION) LOOP(NAME, V, REPEAT(INSTRUCTION " %%" V "14, %%" V "0, %%" V "0"))
#define CHAIN(NAME, V, INSTRUCTION) LOOP(NAME, V, REPEAT(INSTRUCTION " %%" V "14, %%" V "15, %%" V "0"))

// Twelve results of sixteen steps, and what they are stored to: lines of other places in a page than the operand's.
#define TILE(NAME, V, STORES)                                                      \
  LOOP(NAME, V,                                                                    \
       EACH("vxorps %%xmm\\r, %%xmm\\r, %%xmm\\r") ".rept 16\n vmovups (%1), %%" V \
                                                   "13\n" EACH("vfmadd231ps %%" V "14, %%" V "13, %%" V "\\r") ".endr\n" STORES)

// Not zeros: Zen 4 streams lines of them more than three times as fast as others.
#define WRITES(NAME, V, OFFSETS, STORE, END)                                                                                            \
  void NAME(void* begin, int64_t bytes) {                                                                                               \
    __asm__ volatile("movl $0x3f800001, %%eax\n vmovd %%eax, %%xmm0\n vbroadcastss %%xmm0, %%" V "0\n .p2align 5\n1:\n .irp o," OFFSETS \
                     "\n " STORE " %%" V                                                                                                \
                     "0, \\o(%0)\n .endr\n"                                                                                             \
                     "addq $1024, %0\n subq $1024, %1\n jnz 1b\n" END "vzeroupper\n"                                                    \
                     : "+r"(begin), "+r"(bytes)                                                                                         \
                     :                                                                                                                  \
                     : CLOBBERS);                                                                                                       \
  }

// A vector of a row, ROW being what is added to its address, and what a kernel executes beside: where the window in which a core looks
// ahead is full of stores alone, it hides most of what those across two lines take.
#define TURN(V, ROW) "vmovups (%0" ROW "), %%" V "0\n vmovups %%" V "0, (%1" ROW ")\n .rept 6\n nop\n .endr\n"

#define COMMON_LOOPS(V, OFFSETS, WIDTH, LINE)                                                                                                                                                          \
  BINARY(fma, V, "vfmadd231ps")                                                                                                                                                                        \
  CHAIN(fma_chain, V, "vfmadd231ps")                                                                                                                                                                   \
  BINARY(add, V, "vaddps")                                                                                                                                                                             \
  BINARY(mul, V, "vmulps")                                                                                                                                                                             \
  BINARY(max, V, "vmaxps")                                                                                                                                                                             \
  INTO(add_chain, V, "vaddps")                                                                                                                                                                         \
  INTO(max_chain, V, "vmaxps")                                                                                                                                                                         \
  BINARY(div, V, "vdivps")                                                                                                                                                                             \
  TILE(tile, V, "")                                                                                                                                                                                    \
  TILE(stored_tile, V, EACH("vmovups %%" V "\\r, 5120+64*\\r(%1)"))                                                                                                                                    \
  BESIDE(add, V, "vaddps %%" V "15, ")                                                                                                                                                                 \
  BESIDE(max, V, "vmaxps %%" V "15, ")                                                                                                                                                                 \
  UNARY(sqrt, V, "vsqrtps")                                                                                                                                                                            \
  UNARY(convert, V, "vcvtdq2ps")                                                                                                                                                                       \
  LOOP(shuffle, V, EACH("vpermps %%" V "14, %%" V "12, %%" V "\\r"))                                                                                                                                   \
  LOOP(load, V, ".irp o," OFFSETS "\n vmovups \\o(%1), %%" V "0\n .endr\n")                                                                                                                            \
  LOOP(split_load, V, ".irp o," OFFSETS "\n vmovups 4+\\o(%1), %%" V "0\n .endr\n")                                                                                                                    \
  LOOP(broadcast, V, EACH("vfmadd231ss 4(%1), %%xmm14, %%xmm\\r"))                                                                                                                                     \
  LOOP(store, V, ".irp o," OFFSETS "\n vmovups %%" V "0, 4096+\\o(%1)\n .endr\n")                                                                                                                      \
  void read(const void* begin, int64_t bytes) {                                                                                                                                                        \
    __asm__ volatile(".p2align 5\n1:\n .irp o," OFFSETS "\n vmovups \\o(%0), %%" V                                                                                                                     \
                     "0\n .endr\n"                                                                                                                                                                     \
                     "addq $1024, %0\n subq $1024, %1\n jnz 1b\n vzeroupper\n"                                                                                                                         \
                     : "+r"(begin), "+r"(bytes)                                                                                                                                                        \
                     :                                                                                                                                                                                 \
                     : CLOBBERS);                                                                                                                                                                      \
  }                                                                                                                                                                                                    \
  void multiply(const void* begin, int64_t bytes) {                                                                                                                                                    \
    __asm__ volatile(EACH("vxorps %%" V "\\r, %%" V "\\r, %%" V "\\r") "vxorps %%" V "14, %%" V "14, %%" V "14\n .p2align 5\n1:\n .irp o," OFFSETS "\n vmovups \\o(%0), %%" V                        \
                     "13\n" EACH("vfmadd231ps %%" V "14, %%" V "13, %%" V "\\r") ".endr\n"                                                                        \
                     "addq $1024, %0\n subq $1024, %1\n jnz 1b\n vzeroupper\n"                            \
                     : "+r"(begin), "+r"(bytes)                                                           \
                     :                                                                                    \
                     : CLOBBERS); \
  }                                                                                                                                                                                                    \
  void turns(const void* from, void* to, int64_t row_bytes, int64_t stride) {                                                                                                                          \
    __asm__ volatile(".p2align 5\n1:\n" TURN(V, "") TURN(V, ",%3") TURN(V, ",%3,2")                                                                                                                    \
                         TURN(V, ",%4") "addq $" WIDTH ", %0\n addq $" WIDTH ", %1\n subq $" WIDTH ", %2\n jnz 1b\n vzeroupper\n"                                                                      \
                     : "+r"(from), "+r"(to), "+r"(row_bytes)                                                                                                                                           \
                     : "r"(stride), "r"(3 * stride)                                                                                                                                                    \
                     : CLOBBERS);                                                                                                                                                                      \
  }                                                                                                                                                                                                    \
  void lines(void* begin, int64_t count, int64_t stride) {                                                                                                                                             \
    __asm__ volatile("movl $0x3f800001, %%eax\n vmovd %%eax, %%xmm0\n vbroadcastss %%xmm0, %%" V "0\n .p2align 5\n1:\n .irp o," LINE                                                                   \
                     "\n vmovups %%" V "0, \\o(%0)\n .endr\n addq %2, %0\n decq %1\n jnz 1b\n vzeroupper\n"                                                                                            \
                     : "+r"(begin), "+r"(count)                                                                                                                                                        \
                     : "r"(stride)                                                                                                                                                                     \
                     : CLOBBERS);                                                                                                                                                                      \
  }                                                                                                                                                                                                    \
  WRITES(write, V, OFFSETS, "vmovups", "")                                                                                                                                                             \
  WRITES(stream, V, OFFSETS, "vmovntps", "sfence\n")                                                                                                                                                   \
  void copy(const void* from, void* to, int64_t bytes) {                                                                                                                                               \
    __asm__ volatile(".p2align 5\n1:\n .irp o," OFFSETS "\n vmovups \\o(%0), %%" V "0\n vmovntps %%" V                                                                                                 \
                     "0, \\o(%1)\n .endr\n"                                                                                                                                                            \
                     "addq $1024, %0\n addq $1024, %1\n subq $1024, %2\n jnz 1b\n sfence\n vzeroupper\n"                                                                                               \
                     : "+r"(from), "+r"(to), "+r"(bytes)                                                                                                                                               \
                     :                                                                                                                                                                                 \
                     : CLOBBERS);                                                                                                                                                                      \
  }

// Two registers: some cores execute an addition of a constant while renaming it.
LOOP(clock, "ymm", REPEAT("xorq %%rdx, %%rax\n xorq %%rcx, %%rax"))
LOOP(int_div, "ymm", REPEAT("movl $1000003, %%eax\n xorl %%edx, %%edx\n idivl 128(%1)"))

namespace avx512 {
COMMON_LOOPS("zmm", "0,64,128,192,256,320,384,448,512,576,640,704,768,832,896,960", "64", "0")
LOOP(floor, "zmm", EACH("vrndscaleps $9, %%zmm14, %%zmm\\r"))
BESIDE(floor, "zmm", "vrndscaleps $9, ")
BESIDE(select, "zmm", "vblendmps %%zmm15, ")
LOOP(compare, "zmm", ".irp k,1,2,3,4,5,6,1,2,3,4,5,6\n vcmpltps %%zmm14, %%zmm15, %%k\\k\n .endr\n")
LOOP(select, "zmm", EACH("vblendmps %%zmm14, %%zmm15, %%zmm\\r%{%%k1%}"))
LOOP(gather, "zmm", EACH("kxnorw %%k0, %%k0, %%k1\n vgatherdps (%1,%%zmm12,4), %%zmm\\r%{%%k1%}"))
BINARY(vpdpbusd, "zmm", "vpdpbusd")
CHAIN(vpdpbusd_chain, "zmm", "vpdpbusd")
BINARY(vdpbf16ps, "zmm", "vdpbf16ps")
CHAIN(vdpbf16ps_chain, "zmm", "vdpbf16ps")
}  // namespace avx512

namespace avx2 {
COMMON_LOOPS("ymm",
             "0,32,64,96,128,160,192,224,256,288,320,352,384,416,448,480,512,544,576,608,640,672,704,736,768,800,832,864,896,928,960,992",
             "32", "0,32")
LOOP(floor, "ymm", EACH("vroundps $9, %%ymm14, %%ymm\\r"))
BESIDE(floor, "ymm", "vroundps $9, ")
BESIDE(select, "ymm", "vblendvps %%ymm12, %%ymm15, ")
BINARY(compare, "ymm", "vcmpltps")
LOOP(select, "ymm", EACH("vblendvps %%ymm12, %%ymm14, %%ymm15, %%ymm\\r"))
LOOP(gather, "ymm", EACH("vpcmpeqd %%ymm13, %%ymm13, %%ymm13\n vgatherdps %%ymm13, (%1,%%ymm12,4), %%ymm\\r"))
// with the addition that every use needs; the chain is the addition alone
LOOP(vpmaddwd, "ymm", EACH("vpmaddwd %%ymm14, %%ymm12, %%ymm13\n vpaddd %%ymm13, %%ymm\\r, %%ymm\\r"))
LOOP(vpmaddwd_chain, "ymm", REPEAT("vpaddd %%ymm14, %%ymm0, %%ymm0"))
}  // namespace avx2

// Four accumulator tiles, two and two operand tiles, as a kernel uses them.
#define TILE_LOOP(NAME, BODY)                                                                             \
  void NAME(int64_t iterations, void* scratch) {                                                          \
    __asm__ volatile("ldtilecfg 256(%1)\n .irp t,0,1,2,3,4,5,6,7\n tilezero %%tmm\\t\n .endr\n 1:\n" BODY \
                     "decq %0\n jnz 1b\n tilerelease\n"                                                   \
                     : "+r"(iterations)                                                                   \
                     : "r"(scratch)                                                                       \
                     : "memory", "cc");                                                                   \
  }
#define TILE_LOOPS(NAME)                                                                                                                  \
  TILE_LOOP(NAME, ".rept 4\n" #NAME " %%tmm6, %%tmm4, %%tmm0\n" #NAME " %%tmm7, %%tmm4, %%tmm1\n" #NAME " %%tmm6, %%tmm5, %%tmm2\n" #NAME \
                  " %%tmm7, %%tmm5, %%tmm3\n .endr\n")                                                                                    \
  TILE_LOOP(NAME##_chain, REPEAT(#NAME " %%tmm6, %%tmm4, %%tmm0"))
TILE_LOOPS(tdpbf16ps)
TILE_LOOPS(tdpbssd)
TILE_LOOPS(tdpbusd)

// The system lends the tile registers to those who ask; without its leave the first tile instruction ends the process.
bool tiles_granted() {
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

#define COMMON_ROWS(W)                                                                                                                    \
  {"fma", false, 12, W::fma}, {"fma", true, 16, W::fma_chain}, {"add", false, 12, W::add}, {"add", true, 16, W::add_chain},               \
      {"max", true, 16, W::max_chain}, {"mul", false, 12, W::mul}, {"max", false, 12, W::max}, {"div", false, 12, W::div},                \
      {"sqrt", false, 12, W::sqrt}, {"floor", false, 12, W::floor}, {"select", false, 12, W::select}, {"compare", false, 12, W::compare}, \
      {"convert", false, 12, W::convert}, {"fma+add", false, 12, W::beside_add}, {"fma+max", false, 12, W::beside_max},                   \
      {"fma+floor", false, 12, W::beside_floor}, {"fma+select", false, 12, W::beside_select}, {"tile", false, 1, W::tile},                \
      {"stored_tile", false, 1, W::stored_tile}, {"shuffle", false, 12, W::shuffle}, {                                                    \
    "gather", false, 12, W::gather                                                                                                        \
  }

}  // namespace

std::vector<InstructionLoop> instruction_loops(int vector_bits, const std::vector<std::string>& isa) {
  std::vector<InstructionLoop> loops = {{"clock", true, 32, clock}, {"int_div", false, 16, int_div}};
  const std::vector<InstructionLoop> narrow = {COMMON_ROWS(avx2),
                                               {"load", false, 32, avx2::load},
                                               {"split_load", false, 32, avx2::split_load},
                                               {"broadcast", false, 12, avx2::broadcast},
                                               {"store", false, 32, avx2::store},
                                               {"vpmaddwd", false, 12, avx2::vpmaddwd},
                                               {"vpmaddwd", true, 16, avx2::vpmaddwd_chain}};
  const std::vector<InstructionLoop> wide = {COMMON_ROWS(avx512),
                                             {"load", false, 16, avx512::load},
                                             {"split_load", false, 16, avx512::split_load},
                                             {"broadcast", false, 12, avx512::broadcast},
                                             {"store", false, 16, avx512::store},
                                             {"half_fma", false, 12, avx2::fma},
                                             {"half_load", false, 32, avx2::load},
                                             {"vpdpbusd", false, 12, avx512::vpdpbusd},
                                             {"vpdpbusd", true, 16, avx512::vpdpbusd_chain},
                                             {"vdpbf16ps", false, 12, avx512::vdpbf16ps},
                                             {"vdpbf16ps", true, 16, avx512::vdpbf16ps_chain}};
  const std::vector<InstructionLoop> tiles = {{"tdpbf16ps", false, 16, tdpbf16ps}, {"tdpbf16ps", true, 16, tdpbf16ps_chain},
                                              {"tdpbssd", false, 16, tdpbssd},     {"tdpbssd", true, 16, tdpbssd_chain},
                                              {"tdpbusd", false, 16, tdpbusd},     {"tdpbusd", true, 16, tdpbusd_chain}};
  auto add = [&](const std::vector<InstructionLoop>& table) {
    for (const InstructionLoop& loop : table)
      if (const std::string feature = atom_feature(loop.figure); feature.empty() || std::count(isa.begin(), isa.end(), feature) > 0)
        loops.push_back(loop);
  };
  add(vector_bits == 512 ? wide : narrow);
  if (std::count(isa.begin(), isa.end(), "amx-tile") > 0 && tiles_granted()) add(tiles);
  return loops;
}

StreamLoops stream_loops(int vector_bits) {
  return vector_bits == 512
             ? StreamLoops{avx512::read, avx512::write, avx512::stream, avx512::copy, avx512::multiply, avx512::turns, avx512::lines}
             : StreamLoops{avx2::read, avx2::write, avx2::stream, avx2::copy, avx2::multiply, avx2::turns, avx2::lines};
}

void* chase(void* start, int64_t hops) {
  __asm__ volatile("1:\n" REPEAT("movq (%0), %0") "subq $16, %1\n jg 1b\n" : "+r"(start), "+r"(hops) : : "memory", "cc");
  return start;
}

}  // namespace rgen::hw
#endif
