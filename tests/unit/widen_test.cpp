// Factors in types for which a processor has no instruction: copies in the type that is multiplied.
#include "rtile/widen.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "ir/ir.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"

using namespace rgen;
using rtile::Rewritten;

namespace {

ir::TensorProgram matmul(const std::string& dtype, int m, int n, int k) {
  return ir::parse_program(R"({"op": "matmul", "dtype": ")" + dtype + R"(", "params": {"m": )" + std::to_string(m) + R"(, "n": )" +
                           std::to_string(n) + R"(, "k": )" + std::to_string(k) + "}}");
}
std::optional<Rewritten> widen(const ir::TensorProgram& program, const char* profile) {
  return rtile::widen(program, rtile::build_nests(program), hw::load_profile(profile));
}
/// Of the tensors that were added.
std::vector<DType> added(const ir::TensorProgram& program, const Rewritten& r) {
  std::vector<DType> types;
  for (size_t t = program.tensors.size(); t < r.program->tensors.size(); ++t) types.push_back(r.program->tensors[t].dtype);
  return types;
}
const ir::Tensor* packed_wide(const ir::TensorProgram& program) {
  for (const ir::Tensor& t : program.tensors)
    if (t.widens >= 0) return &t;
  return nullptr;
}

}  // namespace

TEST_CASE("both factors of a product are widened where no instruction takes them") {
  for (const char* dtype : {"bf16", "f16"}) {
    const ir::TensorProgram program = matmul(dtype, 64, 48, 32);
    const auto r = widen(program, "haswell_avx2");
    REQUIRE(r);
    REQUIRE(r->nests.size() == 2);
    CHECK(r->nests[0].copies);  // the activations; the weights' copy is the packed one
    CHECK(added(program, *r) == std::vector<DType>{DType::f32, DType::f32});
    const ir::Tensor* weights = packed_wide(*r->program);
    REQUIRE(weights);
    CHECK(weights->widens == program.inputs[1]);
    CHECK(weights->constant);
  }
  const ir::TensorProgram bytes = matmul("s8", 64, 48, 32);
  const auto r = widen(bytes, "skylake_avx512");
  REQUIRE(r);
  CHECK(added(bytes, *r) == std::vector<DType>{DType::s16, DType::s16});
}

TEST_CASE("what an instruction takes, and what is read once, stays as it is") {
  CHECK_FALSE(widen(matmul("f32", 64, 48, 32), "haswell_avx2"));
  CHECK_FALSE(widen(matmul("bf16", 64, 48, 32), "zen4"));
  CHECK_FALSE(widen(matmul("s8", 64, 48, 32), "zen4"));
  CHECK(widen(matmul("f16", 64, 48, 32), "zen4"));
  const auto one_row = widen(matmul("bf16", 1, 48, 32), "haswell_avx2");  // its weights are read once
  REQUIRE(one_row);
  CHECK_FALSE(packed_wide(*one_row->program));
}

TEST_CASE("constants of bytes may stay what they are") {
  const ir::TensorProgram bytes = matmul("s8", 64, 48, 32);
  const hw::Profile profile = hw::load_profile("zen3");
  const auto r = rtile::widen(bytes, rtile::build_nests(bytes), profile, false);
  REQUIRE(r);
  CHECK(added(bytes, *r) == std::vector<DType>{DType::s16});  // the activations' copy
  CHECK_FALSE(packed_wide(*r->program));
  const auto few = rtile::construct(matmul("s8", 3, 4096, 4096), profile, {1, 1}).front().program;
  CHECK(few->groups.back().nests.back().atom->name == "vpmaddwd");
  CHECK(few->groups.back().nests.back().widens_b(1));
}

TEST_CASE("the model widens many rows, and not the weights of one") {
  const hw::Profile profile = hw::load_profile("zen3");
  const auto first = [&](const ir::TensorProgram& p) { return rtile::construct(p, profile, {1, 1}).front().program; };
  CHECK(packed_wide(*first(matmul("bf16", 256, 256, 256))->extended));
  CHECK(first(matmul("s8", 256, 256, 256))->groups.back().nests.back().atom->name == "vpmaddwd");
  const auto one_row = first(matmul("bf16", 1, 4096, 4096))->extended;
  CHECK((!one_row || !packed_wide(*one_row)));
}
