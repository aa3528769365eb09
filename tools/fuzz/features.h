// What a program and its plan exercise, for the histogram: "KIND VALUE", each once.
#pragma once
#include <string>
#include <vector>

#include "emit/backend.h"
#include "fuzz/task.h"
#include "ir/ir.h"
#include "rtile/construct.h"

namespace rgen::fuzz {

std::vector<std::string> features(const ir::TensorProgram& program, const rtile::Candidate& plan, const emit::Emitted& code,
                                  const Setting& setting);
/// All primitives that a source calls or defines, of the vector units that this machine runs: what "primitive NAME" can be.
std::vector<std::string> known_primitives();

}  // namespace rgen::fuzz
