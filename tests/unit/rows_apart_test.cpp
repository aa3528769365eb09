// Rows of a tensor in memory, by turns from its parts.
#include "rtile/rows_apart.h"

#include <doctest/doctest.h>

#include "ir/ir.h"
#include "lower/lower.h"
#include "lower/simulate.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"
#include "support/programs.h"

using namespace rgen;

namespace {

/// The shapes of the tensors in the form with parts; "": there is none.
std::string divided(const std::string& compute, const std::string& shape = "60, 40",
                    const hw::Profile& profile = test::with_tiny_caches(hw::load_profile("zen4"))) {
  const ir::TensorProgram program =
      ir::parse_program(R"--({"inputs": {"X": {"shape": [)--" + shape + R"--(]}}, "compute": [)--" + compute + "]}");
  const auto nests = rtile::build_nests(program);
  const auto r = rtile::rows_apart(program, nests, rtile::residence(program, nests, profile, 1), profile);
  std::string shapes;
  if (!r) return shapes;
  for (const ir::Tensor& t : r->program->tensors) {
    shapes += t.name;
    for (size_t d = 0; d < t.shape.size(); ++d) shapes += (d ? "x" : " ") + std::to_string(t.shape[d].value());
    shapes += ", ";
  }
  return shapes;
}

bool has_parts(const rtile::Candidate& c) { return c.explanation.find("parts of the tensor by turns") != std::string::npos; }

/// The walk over rows that the best plan takes.
bool chosen(const std::string& spec, const char* profile) {
  return has_parts(rtile::construct(ir::parse_program(spec), hw::load_profile(profile), {1, 1}).front());
}

}  // namespace

TEST_CASE("rows that are reduced are places in parts, wherever they are an axis") {
  CHECK(divided(R"--("S[i:60] = sum(j:40 | X[i, j])")--") == "X 4x15x40, S 4x15, ");
  CHECK(divided(R"--("S[i:60] = max(j:40 | X[i, j] * X[i, j])", "Y[i:60] = S[i] * i")--") == "X 4x15x40, S 4x15, Y 4x15, ");
  CHECK(divided(R"--("S[a:12, b:30] = sum(j:8 | X[a, b, j])")--", "12, 30, 8") == "X 4x3x30x8, S 4x3x30, ");
  CHECK(divided(R"--("S[b:60] = sum(j:40 | X[0, b, j])")--", "1, 60, 40") == "X 1x4x15x40, S 4x15, ");
}

TEST_CASE("and so are rows whose columns are reduced, unless they are packed") {
  CHECK(divided(R"--("S[j:40] = sum(i:60 | X[i, j])")--") == "X 4x15x40, S 40, ");
  CHECK(divided(R"--("S[j:40] = max(i:64 | X[i, j])")--", "64, 40") == "X 8x8x40, S 40, ");
  CHECK(divided(R"--("S[b:8, j:10] = sum(a:14, c:3 | X[a, b, c, j])")--", "14, 8, 3, 10") == "X 7x2x8x3x10, S 8x10, ");
  CHECK(divided(R"--("S[j:40] = sum(i:60 | X[i, j])", "Y[i:60, j:40] = X[i, j] - S[j]")--") == "");
  CHECK(divided(R"--("S[j:40] = sum(i:60 | X[i, j] * i)")--") == "X 4x15x40, S 40, ");
  CHECK(divided(R"--("S[j:40] = sum(i:60 | X[i, j] * i)")--", R"--(60, 40], "constant": true, "strides": [40, 1)--") == "");
}

TEST_CASE("by the first number of parts that divides them") {
  CHECK(divided(R"--("S[i:63] = sum(j:40 | X[i, j])")--", "63, 40") == "X 3x21x40, S 3x21, ");
  CHECK(divided(R"--("S[i:25] = sum(j:90 | X[i, j])")--", "25, 90") == "X 5x5x90, S 5x5, ");
  CHECK(divided(R"--("S[i:61] = sum(j:40 | X[i, j])")--", "61, 40") == "");
}

TEST_CASE("and not where they are used again, are walked otherwise, run tile by tile with others, or lie in a cache") {
  CHECK(divided(R"--("S[i:60, k:3] = sum(j:40 | X[i, j] * X[k, j])")--") == "");
  CHECK(divided(R"--("S[i:60] = sum(j:40 | X[59 - i, j])")--") == "");
  CHECK(divided(R"--("S[i:60] = sum(j:40 | X[i, j])", "Z[j:40] = max(i:60 | X[i, j] * S[i])")--") == "");
  CHECK(divided(R"--("S[i:60] = sum(j:40 | X[i, j])", "Y[i:60, j:40] = exp(X[i, j]) / S[i]", "T[i:60] = sum(j:40 | Y[i, j])")--") == "");
  CHECK(divided(R"--("S[i:60] = sum(j:40 | X[i, j])")--", "60, 40", hw::load_profile("zen4")) == "");
}

TEST_CASE("plans with parts write each result once, from rows that are there") {
  int found = 0;
  for (const char* name : {"zen4", "haswell_avx2", "neoverse_n1"})
    for (const char* spec :
         {R"--({"op": "reduce_sum", "params": {"shape": [36, 75], "axis": 1}})--",
          R"--({"op": "reduce_max", "params": {"shape": [56, 75], "axis": 0}})--",
          R"--({"inputs": {"A": {"shape": [35, 91]}, "x": {"shape": [91]}}, "compute": ["y[m:35] = sum(k:91 | A[m, k] * x[k])"]})--"}) {
      const ir::TensorProgram program = ir::parse_program(spec);
      for (int threads : {1, 3})
        for (const rtile::Candidate& c : rtile::construct(program, test::with_tiny_caches(hw::load_profile(name)), {threads, 40})) {
          if (!has_parts(c)) continue;
          const lower::Simulation s = lower::simulate(lower::lower(program, *c.program), int64_t{1} << 26);
          CHECK(s.complete);
          for (const std::string& v : s.violations) FAIL_CHECK(v);
          ++found;
        }
    }
  CHECK(found >= 36);
}

TEST_CASE("the model takes parts for long sums from memory, and not for what lies in a cache") {
  for (const char* profile : {"zen3", "zen4", "zen5", "sapphire_rapids"}) {
    CHECK(chosen(R"--({"op": "reduce_sum", "params": {"shape": [30000, 1500], "axis": 1}})--", profile));
    CHECK_FALSE(chosen(R"--({"op": "reduce_sum", "params": {"shape": [300, 1500], "axis": 1}})--", profile));
    CHECK(chosen(R"--({"op": "reduce_sum", "params": {"shape": [30000, 1500], "axis": 0}})--", profile));
    CHECK_FALSE(chosen(R"--({"op": "reduce_sum", "params": {"shape": [300, 1500], "axis": 0}})--", profile));
  }
}
