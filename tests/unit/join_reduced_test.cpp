// The places of a window's row and their channels as one axis of the reduction.
#include "rtile/join_reduced.h"

#include <doctest/doctest.h>

#include "ir/ir.h"
#include "lower/lower.h"
#include "lower/simulate.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"

using namespace rgen;

namespace {

std::string convolution(const std::string& params, const std::string& dtype = "bf16") {
  return R"--({"op": "conv2d", "dtype": ")--" + dtype + R"--(", "params": {"n": 1, "h": 15, "w": 17, "co": 20, )--" + params + "}}";
}

/// The extents of the nests' axes in the joined form; "": there is none.
std::string joined(const std::string& spec, const char* profile = "zen4") {
  const ir::TensorProgram program = ir::parse_program(spec);
  const auto r = rtile::join_reduced(program, rtile::build_nests(program), hw::load_profile(profile));
  std::string all;
  if (!r) return all;
  for (const rtile::Nest& n : r->nests) {
    for (const rtile::NestAxis& a : n.axes)
      if (a.extent > 1) all += (a.reduced ? "r" : "") + std::to_string(a.extent) + " ";
    all += n.copies ? "copy " : ". ";
  }
  return all;
}

}  // namespace

TEST_CASE("few channels are joined with the places of their row") {
  CHECK(joined(convolution(R"--("ci": 3, "r": 3, "s": 3, "stride": 2, "pad": 0)--")) == "7 8 20 r9 r3 . ");
  CHECK(joined(convolution(R"--("ci": 3, "r": 4, "s": 4, "stride": 4, "pad": 0)--")) == "3 4 20 r12 r4 . ");
}

TEST_CASE("behind a copy of the image with its border, rows as one dimension") {
  CHECK(joined(convolution(R"--("ci": 3, "r": 3, "s": 3, "stride": 1, "pad": 1)--")) == "17 57 copy 15 17 20 r9 r3 . ");
  CHECK(joined(convolution(R"--("ci": 5, "r": 2, "s": 7, "stride": 2, "pad": 3)--")) == "20 115 copy 10 9 20 r35 r2 . ");
}

TEST_CASE("for a GPU, which stages rows that begin at multiples of 16 bytes, behind a copy of what each place reads") {
  const auto r = [](const char* profile) { return joined(convolution(R"--("ci": 3, "r": 3, "s": 3, "stride": 2, "pad": 1)--"), profile); };
  CHECK(r("h100") == "17 9 9 copy 8 9 20 r9 r3 . ");
  CHECK(r("zen4") == "17 57 copy 8 9 20 r9 r3 . ");
}

TEST_CASE("where an instruction takes fewer steps so") {
  const std::string four = R"--("ci": 4, "r": 3, "s": 3, "stride": 1, "pad": 0)--",
                    three = R"--("ci": 3, "r": 3, "s": 3, "stride": 1, "pad": 0)--";
  CHECK(joined(convolution(four)) == "");
  CHECK(joined(convolution(four), "sapphire_rapids") == "13 15 20 r12 r3 . ");  // one of AMX's 32 for three
  CHECK(joined(convolution(three, "f32")) == "");
  CHECK(joined(convolution(three, "s8")) == "");  // three steps of four either way
  CHECK(joined(convolution(R"--("ci": 3, "r": 3, "s": 4, "stride": 1, "pad": 0)--", "s8")) != "");
  CHECK(joined(convolution(three), "zen3") == "");  // which multiplies no bf16
}

TEST_CASE("and not where places are no neighbours, or the constants or the image are needed elsewhere") {
  CHECK(joined(convolution(R"--("ci": 3, "r": 3, "s": 3, "stride": 1, "pad": 0, "layout": "NCHW")--")) == "");
  CHECK(joined(convolution(R"--("ci": 3, "r": 1, "s": 1, "stride": 1, "pad": 0)--")) == "");
  const auto spec = [](const std::string& image, const std::string& more, const std::string& constant = "true") {
    return R"--({"inputs": {"X": {"shape": [9, 9, 3], "dtype": "bf16"}, "F": {"shape": [20, 3, 3, 3], "dtype": "bf16", "constant": )--" +
           constant + R"--(}}, "compute": ["Y[p:7, q:7, k:20] = sum(c:3, r:3, s:3 | )--" + image + R"--( * F[k, c, r, s])")--" + more +
           "]}";
  };
  CHECK(joined(spec("X[p+r, q+s, c]", "")) != "");
  CHECK(joined(spec("X[p+r-1 ? 0, q+s-1 ? 0, c]", "")) != "");
  CHECK(joined(spec("X[p+r, q+s, c]", "", "false")) == "");
  CHECK(joined(spec("X[p+r, q+2*s-1 ? 0, c]", "")) == "");                                    // a dilated window
  CHECK(joined(spec("X[p+r-1 ? 0, q+s-1 ? 0, c]", R"--(, "Z[c:3] = X[0, 1, c]")--")) == "");  // the image is read twice
  CHECK(joined(spec("X[p+r, q+s, c]", R"--(, "Z[k:20] = F[k, 0, 0, 0]")--")) == "");
}

TEST_CASE("plans of joined axes read what is there, and each constant at its place") {
  int found = 0;
  for (const char* profile : {"zen4", "sapphire_rapids"})
    for (const char* params :
         {R"--("ci": 3, "r": 3, "s": 3, "stride": 1, "pad": 1)--", R"--("ci": 3, "r": 7, "s": 7, "stride": 2, "pad": 3)--",
          R"--("ci": 5, "r": 2, "s": 3, "stride": 3, "pad": 0)--"}) {
      const ir::TensorProgram program = ir::parse_program(convolution(params));
      for (int threads : {1, 3})
        for (const rtile::Candidate& c : rtile::construct(program, hw::load_profile(profile), {threads, 60})) {
          if (c.explanation.find("W_rows prepack") == std::string::npos) continue;
          if (++found % 5 != 0) continue;
          const lower::Simulation s = lower::simulate(lower::lower(program, *c.program), int64_t{1} << 26);
          CHECK(s.complete);
          for (const std::string& v : s.violations) FAIL_CHECK(v);
        }
    }
  CHECK(found >= 50);
}
