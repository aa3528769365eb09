// The vector primitives that emitted C++ kernels are written in: the same names with the same meaning for every vector
// unit. A kernel's source gets a copy of those it uses. Their text is in prelude/*.h, their semantics in docs/numerics.md.
//
// A prelude file is cut at its marker lines:   //@ NAME [! FEATURE…] [? FEATURE…]
// A piece runs up to the next marker and needs every piece whose name occurs in its code, so no dependency is written
// down. `!` lists ISA features the piece needs beyond the base of its vector unit, `?` those it profits from by `#if`.
// Pieces named `@preamble` are in every text; what stands before a file's first marker is in none. If two files of one
// vector unit have a piece of the same name, the file named first in `prelude.cpp` gives it.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rgen::emit {

/// Base features: avx512 = AVX-512 F, BW, DQ, VL + avx2; avx512vl = the same on vectors of 256 bits; avx2 = AVX2, FMA, F16C; neon =
/// AArch64; portable = none; cuda = a warp.
enum class Simd : uint8_t { avx512, avx512vl, avx2, neon, portable, cuda };

/// "avx512", "avx512vl", …: of its file, and of what is written in it.
std::string_view name_of(Simd simd);
/// 32-bit lanes of a vector: 16, 8, 8, 4, 4, 32.
int lanes(Simd simd);
bool prelude_has(Simd simd, const std::string& name);
/// All names, in the order of definition.
std::vector<std::string> prelude_names(Simd simd);

/// The text that defines `used` and what they need, each before its users. Throws Error{internal} on an unknown name.
/// With `emulate_amx` the tile instructions are done in software, for tests where no AMX exists.
std::string prelude_text(Simd simd, const std::set<std::string>& used, bool emulate_amx = false);
/// ISA features (profile names such as "amx-bf16") that these primitives need beyond the base of `simd`, sorted.
std::vector<std::string> prelude_features(Simd simd, const std::set<std::string>& used);
/// ISA features that make these primitives faster where the compiler is told that they exist, sorted.
std::vector<std::string> prelude_optional_features(Simd simd, const std::set<std::string>& used);

}  // namespace rgen::emit
