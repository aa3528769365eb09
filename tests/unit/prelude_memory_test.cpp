// Vector loads and stores of every dtype against scalar code, between pages that cannot be touched.
#include "prelude_drivers/run_driver.h"

TEST_CASE("vector loads read their active lanes and nothing else") {
  for (const rgen::test::DriverTarget& target : rgen::test::driver_targets(false))
    rgen::test::run_driver("loads", target, rgen::test::whole_prelude(target.simd));
}

TEST_CASE("vector stores write their active lanes, rounded as said, and nothing else") {
  for (const rgen::test::DriverTarget& target : rgen::test::driver_targets(true))
    rgen::test::run_driver("stores", target, rgen::test::whole_prelude(target.simd));
}
