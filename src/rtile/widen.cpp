#include "rtile/widen.h"

#include <algorithm>

#include "rtile/atoms.h"
#include "rtile/layout.h"
#include "rtile/nest_facts.h"
#include "rtile/relayout.h"

namespace rgen::rtile {

namespace {

class Widening {
 public:
  Widening(const ir::TensorProgram& program, const std::vector<Nest>& nests, const hw::Profile& profile, bool constants)
      : given_(program),
        extended_(std::make_shared<ir::TensorProgram>(program)),
        nests_(nests),
        profile_(profile),
        constants_(constants),
        reads_(count_reads(program, nests)) {}

  std::optional<Rewritten> run() {
    bool any = false;
    for (size_t i = 0; i < nests_.size(); ++i) {
      const auto product = contraction(nests_[i]);
      if (!product) continue;
      const ir::Access x = *product->x, y = *product->y;
      const auto dtype = multiplied(nests_[i], x, y);
      if (!dtype) continue;
      const bool square = x.tensor == y.tensor && x.index == y.index;
      for (const ir::Access& a : square ? std::vector{x} : std::vector{x, y}) {
        if (given_[a.tensor].dtype == *dtype || a.index.empty() || !read_often(nests_[i], a)) continue;
        if (packable(given_, nests_[i], a, reads_)) {
          if (!constants_ && *dtype == DType::s16) continue;
          widen_constant(nests_[i], a, *dtype);
        } else if (copied_for(a)) {
          copy_as(a, *dtype);
        } else {
          copy_before(i++, a, {a.index.size() - 1, *dtype}, *extended_, nests_);
        }
        any = true;
      }
    }
    if (!any) return {};
    return Rewritten{std::move(extended_), std::move(nests_)};
  }

 private:
  const ir::TensorProgram& given_;
  std::shared_ptr<ir::TensorProgram> extended_;
  std::vector<Nest> nests_;
  const hw::Profile& profile_;
  const bool constants_;
  const std::vector<int> reads_;

  /// An instruction of many products that takes a vector factor of this type.
  bool has_atom(DType b) const {
    return std::any_of(profile_.atoms.begin(), profile_.atoms.end(), [&](const hw::Atom& atom) {
      const AtomRow* row = find_atom_row(atom.name);
      return row && row->form != AtomForm::vector && atom.b == b;
    });
  }

  /// The type in which these factors are best multiplied; nothing: as they are.
  std::optional<DType> multiplied(const Nest& nest, const ir::Access& x, const ir::Access& y) const {
    const DType tx = given_[x.tensor].dtype, ty = given_[y.tensor].dtype, sum = given_[nest.inner[0].tensor].dtype;
    if (is_float(tx) != is_float(ty) || is_float(tx) != is_float(sum)) return {};
    const bool packed = packable(given_, nest, x, reads_) || packable(given_, nest, y, reads_);
    if (is_float(tx)) return packed && tx == ty && has_atom(tx) ? std::optional<DType>() : DType::f32;
    if (size_of(tx) != 1 || size_of(ty) != 1 || has_atom(DType::s8) || has_atom(DType::u8)) return {};
    return has_atom(DType::s16) ? std::optional(DType::s16) : std::nullopt;
  }

  /// A nest copies it for this access alone.
  bool copied_for(const ir::Access& a) const { return reads_[size_t(a.tensor)] == 1 && copying_nest(nests_, a.tensor) >= 0; }
  void copy_as(const ir::Access& a, DType dtype) {
    ir::Tensor& t = extended_->tensors[size_t(a.tensor)];
    t.name = unused_name(*extended_, t.name + "_" + std::string(to_string(dtype)));
    t.dtype = dtype, t.strides = copied_strides(t.shape, dtype, true);
  }

  void widen_constant(Nest& nest, const ir::Access& a, DType dtype) {
    ir::Tensor wide = given_[a.tensor];
    wide.name = unused_name(*extended_, wide.name + "_" + std::string(to_string(dtype)));
    wide.dtype = dtype, wide.kind = ir::TensorKind::intermediate, wide.widens = a.tensor;
    replace_reads(nest, a, {int(extended_->tensors.size()), a.index, a.out_of_bounds});
    extended_->tensors.push_back(std::move(wide));
  }
};

}  // namespace

std::optional<Rewritten> widen(const ir::TensorProgram& program, const std::vector<Nest>& nests, const hw::Profile& profile,
                               bool constants) {
  return Widening(program, nests, profile, constants).run();
}

}  // namespace rgen::rtile
