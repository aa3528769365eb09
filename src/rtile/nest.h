// Loop nests: what the stages of a tensor program look like to tile construction. Operators are gone; what remains is axes, accesses
// and reductions. A nest runs `inner` at every point of its axes and `outer` at every point of the axes that are not reduced, once the
// reduction is complete (an epilogue). A value that a nest makes and reads at the same point stays in a register.
//
// Follows ir::verify; precedes construct. Pre: the program is static.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/tensor_program.h"

namespace rgen::rtile {

struct NestAxis {
  std::string name;
  int64_t extent = 1;
  bool reduced = false;
  bool apart = false;  ///< over parts of the rows (rows_apart.h): not fused with theirs again
  int64_t full = 0;    ///< of a tile of a shared axis: the whole axis' extent (0: extent is all)
};

/// tensor[index] = value, or reduce(value) over the nest's reduced axes. Indices are functions of the nest's axes.
struct Statement {
  int tensor = 0;
  std::vector<ir::Index> index;
  ir::ReduceOp reduce = ir::ReduceOp::none;
  ir::ExprPtr value;
  bool store = true;  ///< false: nobody outside the nest reads it, so it lives in registers
};

struct Nest {
  std::vector<NestAxis> axes;
  std::vector<Statement> inner, outer;
  bool copies = false;      ///< a tensor into another layout or type (relayout.h, widen.h): a group of its own
  bool of_windows = false;  ///< rows of windows, whose columns the nest behind it reduces (separate_windows.h)
  bool stage = false;       ///< a form tried beside the given one: a product that can be staged in shared memory is planned in no other way

  bool has_reduction() const;
  /// Of a tile of a fused group, or of a warp's: some axis is a part of a whole one.
  bool fused() const;
  std::vector<int64_t> extents() const;
  std::vector<int64_t> full_extents() const;  ///< of the whole axes, for the check of what an access can reach
  int64_t points() const;                     ///< Π extents
  /// Every statement, inner before outer.
  template <class F>
  void for_each_statement(F&& f) const {
    for (const Statement& s : inner) f(s);
    for (const Statement& s : outer) f(s);
  }
  /// f(tensor, index, read): of what each statement writes (read: nullptr), and of all that it reads.
  template <class F>
  void for_each_place(F&& f) const {
    for_each_statement([&](const Statement& s) {
      f(s.tensor, s.index, static_cast<const ir::Access*>(nullptr));
      ir::for_each_access(*s.value, [&](const ir::Access& a) { f(a.tensor, a.index, &a); });
    });
  }
};

/// Tensors that the nest reads from memory or writes to it, each once: not what it makes for itself, in registers.
std::vector<int> tensors_in_memory(const Nest& nest);
/// Does a statement of the nest read the tensor?
bool reads(const Nest& nest, int tensor);

/// A program's nests in another form, which needs more tensors than it has itself.
struct Rewritten {
  std::shared_ptr<const ir::TensorProgram> program;  ///< the given one and further tensors, which no stage writes
  std::vector<Nest> nests;
};
/// A name for a further tensor: `base`, or longer.
std::string unused_name(const ir::TensorProgram& program, const std::string& base);
/// The expression with every axis i replaced by `with[i]`.
ir::ExprPtr substitute_axes(const ir::ExprPtr& e, const std::vector<ir::Index>& with);

/// Consecutive nests that run tile by tile over `shared` axes (each given as one axis number per nest), so that what passes between
/// them stays in a tile-sized buffer. One nest, or no shared axes: the nests run one after the other over whole tensors.
struct Group {
  std::vector<Nest> nests;
  std::vector<std::vector<int>> shared;  ///< [shared axis][nest] → axis of that nest
  std::vector<int> local;                ///< tensors made and read inside this group only (tile buffers when shared is not empty)

  /// The kth shared axis, as the first nest has it.
  const NestAxis& shared_axis(size_t k) const { return nests[0].axes[size_t(shared[k][0])]; }
  /// The shared axes of nest n, by its numbers.
  std::vector<int> shared_axes_of(size_t n) const {
    std::vector<int> axes;
    for (const std::vector<int>& of_nests : shared) axes.push_back(of_nests[n]);
    return axes;
  }
};

/// Cheap elementwise stages inlined, epilogues and producers fused into nests; in execution order.
std::vector<Nest> build_nests(const ir::TensorProgram& program);

/// Partitions nests into groups: neighbours that `may_join` are joined along shared axes as far as possible; the others are one group each.
std::vector<Group> build_groups(const ir::TensorProgram& program, const std::vector<Nest>& nests,
                                const std::function<bool(const Nest&)>& may_join);

/// Extent-1 axes dropped (one is kept if all are), `/` and `%` by divisors of an extent turned into split axes, and axes that every
/// access walks as one fused into one. Axes in `keep` (shared ones) stay as they are; their new numbers are returned through it.
Nest simplify_axes(const ir::TensorProgram& program, const Nest& nest, std::vector<int>& keep);

}  // namespace rgen::rtile
