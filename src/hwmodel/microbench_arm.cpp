#if defined(__aarch64__)
#include <algorithm>

#include "hwmodel/microbench.h"
#include "hwmodel/profile_document.h"

namespace rgen::hw {

namespace {

// Registers 16…27 take results, 30 and 31 are operands (1.5 and 1.25: no denormals, no overflow, harmless as pairs of bf16 too).
#define CLOBBERS                                                                                                                      \
  "memory", "cc", "x9", "x10", "x11", "v0", "v1", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", \
      "v30", "v31"
#define EACH(INSTRUCTION) ".irp r,16,17,18,19,20,21,22,23,24,25,26,27\n" INSTRUCTION "\n.endr\n"
#define REPEAT(INSTRUCTION) ".rept 16\n" INSTRUCTION "\n.endr\n"
#define LOOP(NAME, BODY)                                                                                                              \
  void NAME(int64_t iterations, void* scratch) {                                                                                      \
    __asm__ volatile("ld1r {v30.4s}, [%1]\n ldr s31, [%1, #4]\n dup v31.4s, v31.s[0]\n" EACH(                                         \
                         "mov v\\r\\().16b, v30.16b") "mov x9, #3\n mov w10, #16963\n movk w10, #15, lsl #16\n .p2align 5\n1:\n" BODY \
                                                      "subs %0, %0, #1\n b.ne 1b\n"                                                   \
                     : "+r"(iterations)                                                                                               \
                     : "r"(scratch)                                                                                                   \
                     : CLOBBERS);                                                                                                     \
  }
// Instructions that the baseline's assembler refuses, as their encoding for registers 30 and 31 and result 0.
#define ENCODED(NAME, WORD)              \
  LOOP(NAME, EACH(".inst " WORD "+\\r")) \
  LOOP(NAME##_chain, REPEAT(".inst " WORD "+16"))
#define BINARY(NAME, INSTRUCTION) LOOP(NAME, EACH(INSTRUCTION " v\\r\\().4s, v30.4s, v31.4s"))
#define UNARY(NAME, INSTRUCTION) LOOP(NAME, EACH(INSTRUCTION " v\\r\\().4s, v30.4s"))

LOOP(clock, REPEAT("eor x11, x11, x9\n eor x11, x11, x10"))
LOOP(fma, EACH("fmla v\\r\\().4s, v30.4s, v31.4s"))
LOOP(fma_chain, REPEAT("fmla v16.4s, v30.4s, v31.4s"))
LOOP(add_chain, REPEAT("fadd v16.4s, v16.4s, v31.4s"))
LOOP(max_chain, REPEAT("fmax v16.4s, v16.4s, v31.4s"))
ENCODED(sdot, "0x4e9f97c0")
ENCODED(udot, "0x6e9f97c0")
ENCODED(usdot, "0x4e9f9fc0")
ENCODED(smmla, "0x4e9fa7c0")
ENCODED(ummla, "0x6e9fa7c0")
ENCODED(usmmla, "0x4e9fafc0")
ENCODED(bfdot, "0x6e5fffc0")
ENCODED(bfmmla, "0x6e5fefc0")
BINARY(add, "fadd")
BINARY(mul, "fmul")
BINARY(max, "fmax")
BINARY(div, "fdiv")
UNARY(sqrt, "fsqrt")
UNARY(floor, "frintm")
UNARY(convert, "scvtf")
BINARY(compare, "fcmgt")
LOOP(select, EACH("bsl v\\r\\().16b, v30.16b, v31.16b"))
LOOP(shuffle, EACH("tbl v\\r\\().16b, {v30.16b}, v31.16b"))
// No gather in NEON: one load a lane.
LOOP(gather, EACH("ld1 {v\\r\\().s}[0], [%1]\n ld1 {v\\r\\().s}[1], [%1]\n ld1 {v\\r\\().s}[2], [%1]\n ld1 {v\\r\\().s}[3], [%1]"))
LOOP(int_div, REPEAT("sdiv w11, w10, w9"))
LOOP(load, REPEAT("ldr q0, [%1, #64]\n ldr q1, [%1, #128]"))
LOOP(store, REPEAT("str q0, [%1, #64]\n str q1, [%1, #128]"))

#define OFFSETS "0,32,64,96,128,160,192,224,256,288,320,352,384,416,448,480"

void read(const void* begin, int64_t bytes) {
  __asm__ volatile(".p2align 5\n1:\n .irp o," OFFSETS "\n ldp q0, q1, [%0, #\\o]\n .endr\n add %0, %0, #512\n subs %1, %1, #512\n b.ne 1b\n"
                   : "+r"(begin), "+r"(bytes)
                   :
                   : CLOBBERS);
}
#define MULTIPLY(R) "fmla v" #R ".4s, v0.4s, v31.4s\n"
void multiply(const void* begin, int64_t bytes) {
  __asm__ volatile(EACH("movi v\\r\\().2d, #0") "movi v31.2d, #0\n .p2align 5\n1:\n .irp o," OFFSETS
                                                "\n ldp q0, q1, [%0, #\\o]\n" MULTIPLY(16) MULTIPLY(17) MULTIPLY(18) MULTIPLY(19)
                                                    MULTIPLY(20) MULTIPLY(21) MULTIPLY(22) MULTIPLY(23) MULTIPLY(24) MULTIPLY(25)
                                                        MULTIPLY(26) MULTIPLY(27) ".endr\n add %0, %0, #512\n subs %1, %1, #512\n b.ne 1b\n"
                   : "+r"(begin), "+r"(bytes)
                   :
                   : CLOBBERS);
}
void write(void* begin, int64_t bytes) {
  __asm__ volatile("movi v0.2d, #0\n movi v1.2d, #0\n .p2align 5\n1:\n .irp o," OFFSETS
                   "\n stp q0, q1, [%0, #\\o]\n .endr\n add %0, %0, #512\n subs %1, %1, #512\n b.ne 1b\n"
                   : "+r"(begin), "+r"(bytes)
                   :
                   : CLOBBERS);
}

}  // namespace

std::vector<InstructionLoop> instruction_loops(int, const std::vector<std::string>& isa) {
  const InstructionLoop table[] = {
      {"clock", true, 32, clock},
      {"fma", false, 12, fma},
      {"fma", true, 16, fma_chain},
      {"add", false, 12, add},
      {"add", true, 16, add_chain},
      {"mul", false, 12, mul},
      {"max", false, 12, max},
      {"max", true, 16, max_chain},
      {"div", false, 12, div},
      {"sqrt", false, 12, sqrt},
      {"floor", false, 12, floor},
      {"convert", false, 12, convert},
      {"compare", false, 12, compare},
      {"select", false, 12, select},
      {"shuffle", false, 12, shuffle},
      {"gather", false, 12, gather},
      {"int_div", false, 16, int_div},
      {"load", false, 32, load},
      {"store", false, 32, store},
      {"sdot", false, 12, sdot},
      {"sdot", true, 16, sdot_chain},
      {"udot", false, 12, udot},
      {"udot", true, 16, udot_chain},
      {"usdot", false, 12, usdot},
      {"usdot", true, 16, usdot_chain},
      {"smmla", false, 12, smmla},
      {"smmla", true, 16, smmla_chain},
      {"ummla", false, 12, ummla},
      {"ummla", true, 16, ummla_chain},
      {"usmmla", false, 12, usmmla},
      {"usmmla", true, 16, usmmla_chain},
      {"bfdot", false, 12, bfdot},
      {"bfdot", true, 16, bfdot_chain},
      {"bfmmla", false, 12, bfmmla},
      {"bfmmla", true, 16, bfmmla_chain},
  };
  std::vector<InstructionLoop> loops;
  for (const InstructionLoop& loop : table)
    if (const std::string feature = atom_feature(loop.figure); feature.empty() || std::count(isa.begin(), isa.end(), feature) > 0)
      loops.push_back(loop);
  return loops;
}

StreamLoops stream_loops(int) { return {read, write, nullptr, nullptr, multiply, nullptr, nullptr}; }

void* chase(void* start, int64_t hops) {
  __asm__ volatile("1:\n" REPEAT("ldr %0, [%0]") "subs %1, %1, #16\n b.gt 1b\n" : "+r"(start), "+r"(hops) : : "memory", "cc");
  return start;
}

}  // namespace rgen::hw
#endif
