// Random tensor programs of the kinds that people write: products, convolutions, windows, stencils, normalisations, chains of them,
// transposes, reshapes and odd index arithmetic, over extents that divide nothing, in every dtype and many layouts. All are valid, and
// their values stay where the arithmetic is well conditioned: no logarithm of a negative number, no division by almost nothing, no
// overflow of s32.
#pragma once
#include <string>

#include "ir/tensor_program.h"
#include "support/draws.h"

namespace rgen::test {

struct RandomProgramOptions {
  int64_t work = int64_t{1} << 21;  ///< about the most points over all stages
};

/// The program as JSON of the second form; its name is `name`.
std::string random_spec(Draws& draws, const std::string& name, const RandomProgramOptions& options = {});

/// The program of a seed, parsed and verified.
ir::TensorProgram random_program(uint64_t seed, const RandomProgramOptions& options = {});

}  // namespace rgen::test
