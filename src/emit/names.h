// What kernels, their types and identifiers are called, and what stands above them.
#pragma once
#include <string>
#include <string_view>

#include "hwmodel/profile.h"
#include "ir/tensor_program.h"
#include "rtile/construct.h"

namespace rgen::emit {

std::string_view c_type(DType t);
/// `s` as an identifier that is none of the words in use.
std::string identifier(const std::string& s);
/// A kernel's C name: the program's, and a hash of its text and of the profile.
std::string kernel_symbol(const ir::TensorProgram& program, const std::string& text, const hw::Profile& profile);
/// What stands above every kernel: how to compile it, the program, the plan and its predicted time.
std::string head_comment(const std::string& compile, const ir::TensorProgram& program, const rtile::Candidate& candidate,
                         const hw::Profile& profile);

}  // namespace rgen::emit
