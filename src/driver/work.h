// How much a program computes and moves at least: the denominators of GFLOP/s and GB/s.
#pragma once
#include "ir/tensor_program.h"

namespace rgen::driver {

struct WorkAmount {
  double operations = 0;  ///< arithmetic of all stages, as written (a multiplication and an addition are two)
  double bytes = 0;       ///< every input read once, every output written once
};
/// Pre: the program is static.
WorkAmount amount_of_work(const ir::TensorProgram& program);

}  // namespace rgen::driver
