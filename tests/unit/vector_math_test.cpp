// The stated errors of the elementary functions (docs/numerics.md), on about four million floats each and the special values.
#include "prelude_drivers/run_driver.h"

TEST_CASE("elementary functions are within their stated errors") {
  for (const rgen::test::DriverTarget& target : rgen::test::driver_targets(false)) {
    const char* step = target.simd == rgen::emit::Simd::neon ? "20011" : "1021";  // primes; every float is too long for each build
    rgen::test::run_driver(
        "vector_math", target,
        rgen::emit::prelude_text(target.simd, {"vf_exp", "vf_exp_nonpositive", "vf_log", "vf_tanh", "vf_erf", "vf_sigmoid", "vf_rsqrt",
                                               "vf_sqrt", "vf_pow", "kLanes"}),
        {step, "exp=1.02", "exp_nonpositive=1.02", "log=1", "tanh=2.6", "erf=3", "sigmoid=2.5", "rsqrt=1.5", "sqrt=0.5", "pow=4"});
  }
}
