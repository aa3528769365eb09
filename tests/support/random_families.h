// The kinds of programs that `random_spec` draws from. Each writes inputs, stages and outputs.
#pragma once
#include "support/spec_writer.h"

namespace rgen::test {

void elementwise(SpecWriter&);    ///< functions, broadcasts and outer products over 0 to 4 axes
void row_reduction(SpecWriter&);  ///< sum, prod, max or min over some of 1 to 4 axes
void permutation(SpecWriter&);    ///< transposes, with arithmetic and casts
void stencil(SpecWriter&);        ///< neighbours along one or two axes, inside or beyond the border
void normalisation(SpecWriter&);  ///< softmax, layernorm, rmsnorm and the like
void reshaping(SpecWriter&);      ///< `/` and `%`: reshape, resize, shuffle, concatenation, rolls
void index_values(SpecWriter&);   ///< masks and weights made of axes
void contraction(SpecWriter&);    ///< products summed over axes in all roles: batch, rows, columns, depth
void dense_product(SpecWriter&);  ///< a matrix times a constant one, of the types that have instructions of their own
void convolution(SpecWriter&);    ///< windows times weights: strides, dilation, borders, groups
void pooling(SpecWriter&);        ///< windows reduced
void chain(SpecWriter&);          ///< several contractions, windows and reductions one after the other

// Shared by the families.
/// A dimension of a tensor as an axis reads it: itself, shifted, reversed or in steps. The extent is the dimension's.
struct Subscript {
  std::string text;
  int64_t extent;
};
Subscript subscript(SpecWriter& w, const Axis& a, bool plain);
/// sum(… | a·b) over `reduced` of two new inputs, each over its axes in a drawn order.
Tensor product(SpecWriter& w, const Axes& out, const Axes& reduced, const Axes& in_a, const Axes& in_b);

}  // namespace rgen::test
