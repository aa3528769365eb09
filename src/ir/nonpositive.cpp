#include "ir/nonpositive.h"

#include <algorithm>
#include <set>

#include "ir/equal.h"

namespace rgen::ir {

namespace {

/// A stage's expression at the point where its output is read, beside one that should be among its values.
class Among {
 public:
  Among(const Stage& stage, const TensorProgram& program, const std::vector<Index>& read) : stage_(stage), program_(program) {
    at_ = read;
    at_.resize(stage.axes.size());
  }

  /// Equal for some value of the reduced axes.
  bool includes(const Expr& e) {
    const auto accesses = [this](const Access& of, const Access& a) { return equal(of, a); };
    return ir::equal(*stage_.body, e, accesses, [](const Index&, const Index&) { return false; });
  }

 private:
  const Stage& stage_;
  const TensorProgram& program_;
  std::vector<Index> at_;  ///< of the stage's axes; of reduced ones nothing
  std::set<int> seen_;     ///< reduced axes that stand for a dimension of e

  bool equal(const Access& of, const Access& a) {
    if (of.tensor != a.tensor || of.out_of_bounds || a.out_of_bounds) return false;
    for (size_t d = 0; d < a.index.size(); ++d) {
      int reduced = -1;
      for (int r = stage_.n_out; r < int(stage_.axes.size()); ++r)
        if (of.index[d].uses(r)) reduced = r;
      if (reduced < 0 ? substitute(of.index[d], at_) != a.index[d] : !covers(reduced, of, d)) return false;
    }
    return true;
  }
  /// The reduced axis alone, once, walks the whole dimension: any index in bounds is among its values.
  bool covers(int axis, const Access& of, size_t d) {
    const Size &extent = stage_.axes[size_t(axis)].extent, &shape = program_[of.tensor].shape[d];
    return of.index[d] == Index::axis(axis) && extent == shape && seen_.insert(axis).second;
  }
};

}  // namespace

bool never_positive(const TensorProgram& program, const Expr& e) {
  const Binary* difference = std::get_if<Binary>(&e.node);
  if (!difference || difference->op != BinaryOp::sub) return false;
  const Access* largest = std::get_if<Access>(&difference->y->node);
  if (!largest || largest->out_of_bounds || program[largest->tensor].dtype != DType::f32) return false;
  const auto stage =
      std::find_if(program.stages.begin(), program.stages.end(), [&](const Stage& s) { return s.output == largest->tensor; });
  if (stage == program.stages.end() || stage->reduce != ReduceOp::max) return false;
  return Among(*stage, program, largest->index).includes(*difference->x);
}

}  // namespace rgen::ir
