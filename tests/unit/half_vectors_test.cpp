// Vectors of half the length, where whole ones take two passes.
#include <doctest/doctest.h>

#include "emit/backend.h"
#include "hwmodel/profile.h"
#include "ir/ir.h"
#include "lower/loop_program.h"
#include "lower/lower.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"

using namespace rgen;

namespace {

/// A 1 × 1 convolution of 400 places from 64 to so many channels.
ir::TensorProgram channels(int64_t co) {
  const std::string n = std::to_string(co);
  return ir::parse_program(R"({"name": "c", "op": "matmul", "dtype": "f32", "params": {"m": 400, "n": )" + n + R"(, "k": 64}})");
}
int bits_chosen(int64_t co, const char* profile) {
  return rtile::construct(channels(co), hw::load_profile(profile), {1, 1}).front().program->vector_bits;
}

}  // namespace

TEST_CASE("half vectors are chosen where half a vector is left over, on cores that take whole ones in two passes") {
  CHECK(bits_chosen(24, "zen4") == 256);
  CHECK(bits_chosen(8, "zen4") == 256);
  CHECK(bits_chosen(32, "zen4") == 512);
  CHECK(bits_chosen(30, "zen4") == 512);  // two vectors, or four halves
  CHECK(bits_chosen(24, "zen5") == 512);
  CHECK(bits_chosen(24, "haswell_avx2") == 256);
}

TEST_CASE("a halved machine moves and multiplies as many bytes a cycle") {
  const hw::Profile whole = hw::load_profile("zen4"), half = *whole.halved();
  CHECK(half.vector_bits == 256);
  CHECK(half.vector_registers == whole.vector_registers);
  CHECK(half.find_atom(DType::f32, DType::f32, DType::f32)->n == 8);
  const auto products = [](const hw::Profile& p, DType a, DType b, DType acc) {
    const hw::Atom* atom = p.find_atom(a, b, acc);
    return atom->n * atom->k * atom->per_ns;
  };
  CHECK(products(half, DType::f32, DType::f32, DType::f32) == doctest::Approx(products(whole, DType::f32, DType::f32, DType::f32)));
  CHECK(products(half, DType::bf16, DType::bf16, DType::f32) == doctest::Approx(products(whole, DType::bf16, DType::bf16, DType::f32)));
  CHECK(half.load_ports * half.vector_bits == whole.load_ports * whole.vector_bits);
  CHECK(half.cost("add") * 2 == whole.cost("add"));
  CHECK(half.hash == whole.hash);
  CHECK_FALSE(half.halved());
  CHECK_FALSE(hw::load_profile("zen5").halved());
  CHECK_FALSE(hw::load_profile("haswell_avx2").halved());
  CHECK_FALSE(hw::load_profile("h100").halved());
}

TEST_CASE("their source has masks and 32 registers") {
  const hw::Profile profile = hw::load_profile("zen4");
  const ir::TensorProgram program = channels(23);
  const rtile::Candidate c = rtile::construct(program, profile, {1, 1}).front();
  CHECK(c.explanation.find("in half vectors, of 256 bits") != std::string::npos);
  CHECK(c.plan_json.find("\"half_vectors\":true") != std::string::npos);
  const emit::Emitted code = emit::emit_cpp(program, c, profile);
  CHECK(code.isa.starts_with("avx512vl"));
  CHECK(code.source.find("-mprefer-vector-width=256") != std::string::npos);
  CHECK(code.source.find("vector_size(32)") != std::string::npos);
  CHECK(code.source.find("__m512 ") == std::string::npos);
  CHECK(code.source.find("_mm256_mask_storeu_ps") != std::string::npos);
}

TEST_CASE("every row of a tile is asked for ahead, wherever its lines begin") {
  // rows of 38 half lines, four a tile: of two neighbours one begins inside a line
  const ir::TensorProgram program =
      ir::parse_program(R"({"name": "p", "op": "matmul", "dtype": "f32", "params": {"m": 60000, "n": 6, "k": 152}})");
  for (const hw::Profile& profile : {*hw::load_profile("zen4").halved(), hw::load_profile("zen3")}) {
    size_t asked = 0;
    for (const rtile::Candidate& c : rtile::construct(program, profile, {1, 20})) {
      const rtile::NestPlan& p = c.program->groups[0].nests[0];
      if (!p.operands[0].passes_by || p.tile[0].hi < 2 || p.tile[0].ragged() || p.operands[0].ahead == 0 || p.vec != 2) continue;
      const std::string source = emit::emit_cpp(program, c, profile).source;
      size_t requests = 0;
      for (size_t at = source.find("prefetch_l2(A"); at != std::string::npos; at = source.find("prefetch_l2(A", at + 1)) ++requests;
      INFO(c.explanation);
      CHECK(requests % size_t(p.tile[0].hi) == 0);
      asked += requests > 0;
    }
    CHECK(asked > 0);
  }
}
