// Vector arithmetic, dot products, transposes and tiles against scalar code.
#include "prelude_drivers/run_driver.h"

namespace {
using rgen::emit::Simd;

const std::set<std::string> kTileNames = {"tile_config", "amx_request",      "tile_configure", "tile_release",     "tile_zero",
                                          "tile_load",   "tile_stream_load", "tile_store",     "tile_store_early", "tile_dpbf16",
                                          "tile_dpbssd", "tile_dpbsud",      "tile_dpbusd",    "tile_dpbuud"};
}  // namespace

TEST_CASE("vector arithmetic gives each lane what scalar arithmetic gives") {
  for (const rgen::test::DriverTarget& target : rgen::test::driver_targets(true))
    rgen::test::run_driver("arithmetic", target, rgen::test::whole_prelude(target.simd));
}

TEST_CASE("parallel_for does each task once under OpenMP") {
  rgen::test::run_driver("arithmetic", {Simd::portable, "OpenMP", {"-fopenmp"}, {}, true}, rgen::test::whole_prelude(Simd::portable));
}

#if defined(__x86_64__)
TEST_CASE("emulated tiles multiply as tile registers would") {
  rgen::test::run_driver("amx", {Simd::avx512, "emulated AMX", {}, {}, false}, rgen::emit::prelude_text(Simd::avx512, kTileNames, true));
}

TEST_CASE("tile registers multiply") {
  rgen::test::run_driver("amx",
                         {Simd::avx512, "AMX", {"-mamx-tile", "-mamx-bf16", "-mamx-int8"}, {"amx_tile", "amx_bf16", "amx_int8"}, false},
                         rgen::emit::prelude_text(Simd::avx512, kTileNames));
}
#endif
