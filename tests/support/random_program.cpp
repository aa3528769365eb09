#include "support/random_program.h"

#include <algorithm>

#include "ir/ir.h"
#include "support/random_families.h"

namespace rgen::test {

std::string random_spec(Draws& draws, const std::string& name, const RandomProgramOptions& options) {
  // most programs are small: what goes wrong goes wrong at the edges
  int64_t work = int64_t{1} << (8 + draws.below(14));
  if (work > options.work) work = options.work;
  SpecWriter w(draws, work);
  struct Family {
    void (*write)(SpecWriter&);
    int weight;
  };
  static constexpr Family families[] = {{elementwise, 8}, {row_reduction, 8}, {contraction, 24}, {permutation, 8},
                                        {pooling, 9},     {convolution, 20},  {stencil, 6},      {normalisation, 12},
                                        {chain, 10},      {reshaping, 6},     {index_values, 6}, {dense_product, 10}};
  std::vector<int> weights;
  for (const Family& f : families) weights.push_back(f.weight);
  families[size_t(draws.weighted(weights))].write(w);
  return w.json(name);
}

ir::TensorProgram random_program(uint64_t seed, const RandomProgramOptions& options) {
  Draws draws(seed);
  const std::string name = "fuzz_" + std::to_string(seed);
  return ir::parse_program(random_spec(draws, name, options), name);
}

}  // namespace rgen::test
