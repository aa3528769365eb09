#include "rtile/join_reduced.h"

#include <algorithm>

#include "base/math.h"
#include "rtile/atoms.h"
#include "rtile/layout.h"
#include "rtile/nest_facts.h"
#include "rtile/relayout.h"
#include "rtile/rprogram.h"

namespace rgen::rtile {

namespace {

constexpr double kFewer = 0.9;  ///< of the steps, from which another form of the program is worth planning

/// Two reduced axes of a product: `inner` along the rows of one factor, `outer` from place to place in them.
struct Pair {
  int inner, outer;
  size_t places;  ///< the dimension of the factor along `outer`, its last but one
};

class Joining {
 public:
  Joining(const ir::TensorProgram& program, const std::vector<Nest>& nests, const hw::Profile& profile)
      : given_(program),
        program_(std::make_shared<ir::TensorProgram>(program)),
        nests_(nests),
        profile_(profile),
        reads_(count_reads(program, nests)) {}

  std::optional<Rewritten> run() {
    bool any = false;
    for (size_t i = 0; i < nests_.size(); ++i) {
      const auto product = contraction(nests_[i]);
      if (!product) continue;
      const ir::Access x = *product->x, y = *product->y;
      for (const auto& [a, b] : {std::pair{x, y}, std::pair{y, x}}) {
        const auto pair = side_by_side(nests_[i], a);
        if (!pair || !packable(given_, nests_[i], b, reads_) || !alone(b, pair->inner) || !alone(b, pair->outer) ||
            !gains(nests_[i], *pair, a, b))
          continue;
        const bool guarded = !guarded_dims(given_, a, nests_[i].full_extents()).empty();
        const int along = place_axis(nests_[i], a, *pair);
        if (((guarded || gpu()) && !can_copy(a)) || (gpu() && along < 0)) continue;
        join(i, a, b, *pair, guarded, along);
        any = true;
        break;
      }
    }
    if (!any) return {};
    return Rewritten{std::move(program_), std::move(nests_)};
  }

 private:
  const ir::TensorProgram& given_;
  std::shared_ptr<ir::TensorProgram> program_;
  std::vector<Nest> nests_;
  const hw::Profile& profile_;
  const std::vector<int> reads_;

  bool gpu() const { return profile_.kind == hw::Profile::Kind::gpu; }
  static int64_t extent(const Nest& n, int axis) { return n.axes[size_t(axis)].extent; }

  /// The last dimension is walked whole by one reduced axis, the one before it by steps of one along another.
  std::optional<Pair> side_by_side(const Nest& n, const ir::Access& a) const {
    const ir::Tensor& t = given_[a.tensor];
    if (a.index.size() < 2 || !is_affine(a.index) || t.strides.back().value() != 1) return {};
    const size_t places = a.index.size() - 2;
    const int inner = single_axis(a.index.back());
    if (inner < 0 || !n.axes[size_t(inner)].reduced || extent(n, inner) != t.shape.back().value() ||
        t.strides[places].value() != extent(n, inner))
      return {};
    for (const ir::Index::Term& term : a.index[places].terms) {
      if (!n.axes[size_t(term.axis)].reduced || term.coef != 1 || extent(n, term.axis) == 1 || term.axis == inner) continue;
      bool elsewhere = false;
      for (size_t d = 0; d < a.index.size(); ++d)
        elsewhere |= (d != places && a.index[d].uses(term.axis)) || (d < places + 1 && a.index[d].uses(inner));
      if (!elsewhere) return Pair{inner, term.axis, places};
    }
    return {};
  }

  /// The only other axis that walks the places; −1: there are others, or none.
  static int place_axis(const Nest& n, const ir::Access& a, const Pair& p) {
    int along = -1;
    for (const ir::Index::Term& term : a.index[p.places].terms) {
      if (term.axis == p.outer) continue;
      if (along >= 0 || n.axes[size_t(term.axis)].reduced) return -1;
      along = term.axis;
    }
    return along;
  }

  /// One dimension is the axis, and no other uses it.
  static bool alone(const ir::Access& b, int axis) {
    const auto using_it = [&](const ir::Index& i) { return i.uses(axis); };
    return std::count_if(b.index.begin(), b.index.end(), using_it) == 1 &&
           single_axis(*std::find_if(b.index.begin(), b.index.end(), using_it)) == axis;
  }

  bool gains(const Nest& n, const Pair& p, const ir::Access& a, const ir::Access& b) const {
    return std::any_of(profile_.atoms.begin(), profile_.atoms.end(), [&](const hw::Atom& atom) {
      const AtomRow* row = find_atom_row(atom.name);
      if (!row || row->form == AtomForm::vector || atom.b != given_[b.tensor].dtype) return false;
      if (atom.a != given_[a.tensor].dtype && !(row->offset_a && given_[a.tensor].dtype == DType::s8)) return false;
      const int64_t apart = ceil_div(extent(n, p.inner), atom.k) * extent(n, p.outer),
                    joined = ceil_div(extent(n, p.inner) * extent(n, p.outer), atom.k);
      return double(joined) <= kFewer * double(apart);
    });
  }

  /// Its rows can be walked as one dimension by the nest that copies it, since nobody else reads it, and who writes it does so element by
  /// element.
  bool can_copy(const ir::Access& a) const {
    const ir::Tensor& t = given_[a.tensor];
    if (t.constant || reads_[size_t(a.tensor)] != 1) return false;
    if (t.kind == ir::TensorKind::input) return true;
    return copying_nest(nests_, a.tensor) >= 0;
  }

  void join(size_t& nest, const ir::Access& a, const ir::Access& b, const Pair& p, bool guarded, int along) {
    const int64_t inner = extent(nests_[nest], p.inner), length = inner * extent(nests_[nest], p.outer);
    ir::Access row = gpu() ? copy_gathered(nest, a, p, along) : guarded ? copy_bordered(nest, a, p.places) : a;
    Nest& n = nests_[nest];
    if (gpu()) {
      n.stage = true;
    } else {
      std::vector<ir::Index> without;
      for (size_t x = 0; x < n.axes.size(); ++x) without.push_back(int(x) == p.outer ? ir::Index::number(0) : ir::Index::axis(int(x)));
      row.index[p.places] = ir::substitute(row.index[p.places], without);
      if (guarded) row.index[p.places] = row.index[p.places] * inner + ir::Index::axis(p.inner);
      // else the axis leaves its dimension, for the next places (simplify_axes.cpp fuses axes so)
    }
    replace_reads(n, a, row);
    replace_reads(n, b, joined(b, p, inner, length));
    n.axes[size_t(p.inner)].name = n.axes[size_t(p.outer)].name + "_" + n.axes[size_t(p.inner)].name;
    n.axes[size_t(p.inner)].extent = length;
    n.axes[size_t(p.outer)].extent = 1;
  }

  /// The constant with a dimension for the joined axis, behind the others.
  ir::Access joined(const ir::Access& b, const Pair& p, int64_t inner, int64_t length) {
    const ir::Tensor& t = given_[b.tensor];
    ir::Tensor w = t;
    w.name = unused_name(*program_, t.name + "_rows");
    w.kind = ir::TensorKind::intermediate, w.widens = b.tensor;
    w.shape.clear();
    ir::Access access{int(program_->tensors.size()), {}, {}};
    const int last = int(b.index.size()) - 2;
    for (size_t d = 0; d < b.index.size(); ++d) {
      const int axis = single_axis(b.index[d]);
      if (axis >= 0 && axis == p.inner) {
        w.view.push_back(ir::floor_mod(ir::Index::axis(last), inner));
      } else if (axis >= 0 && axis == p.outer) {
        w.view.push_back(ir::floor_div(ir::Index::axis(last), inner));
      } else {
        w.view.push_back(ir::Index::axis(int(w.shape.size())));
        w.shape.push_back(t.shape[d]);
        access.index.push_back(b.index[d]);
      }
    }
    w.shape.emplace_back(length);
    access.index.push_back(ir::Index::axis(p.inner));
    w.strides = ir::row_major(w.shape);
    program_->tensors.push_back(std::move(w));
    return access;
  }

  /// Before the nest, one that copies by the statement what the access reads into the tensor; of what it reads, the places and channels
  /// become one dimension. The nest moves on by one.
  void insert_copy(size_t& nest, Nest copy, Statement s, ir::Access from, ir::Tensor to, size_t places) {
    ir::Tensor& t = program_->tensors[size_t(from.tensor)];
    const int64_t unit = t.shape.back().value();
    t.shape[places] = ir::Size(t.shape[places].value() * unit), t.strides[places] = ir::Size(1);
    t.shape.pop_back(), t.strides.pop_back();
    if (const int writer = copying_nest(nests_, from.tensor); writer >= 0) {
      std::vector<ir::Index>& written = nests_[size_t(writer)].inner[0].index;
      written[places] = written[places] * unit + written.back();
      written.pop_back();
    }
    program_->tensors.push_back(std::move(to));
    s.value = ir::access(from.tensor, std::move(from.index), from.out_of_bounds);
    copy.inner.push_back(std::move(s));
    copy.copies = true;
    nests_.insert(nests_.begin() + std::ptrdiff_t(nest), std::move(copy));
    ++nest;
  }

  /// Before the nest, one that copies what each of its rows reads of the places and channels side by side, in rows that begin at multiples
  /// of 16 bytes, as a GPU stages them (im2col along one dimension of the window). The access to the copy.
  ir::Access copy_gathered(size_t& nest, const ir::Access& a, const Pair& p, int along) {
    const int to = int(program_->tensors.size());
    const ir::Tensor& t = program_->tensors[size_t(a.tensor)];
    const Nest& n = nests_[nest];
    const int64_t channels = extent(n, p.inner), length = channels * extent(n, p.outer);
    const std::vector<int64_t> extents = n.full_extents();
    ir::Tensor rows{unused_name(*program_, t.name + "_rows"), {}, t.dtype, ir::TensorKind::intermediate, {}, false};
    ir::Access moved{to, {}, {}}, from{a.tensor, {}, a.out_of_bounds};
    Nest copy;
    Statement s{to, {}, ir::ReduceOp::none, nullptr, true};
    const auto axis = [&](const std::string& name, int64_t size) {
      copy.axes.push_back({name, size, false});
      return ir::Index::axis(int(copy.axes.size()) - 1);
    };
    for (size_t d = 0; d < p.places; ++d) {
      const auto [least, most] = ir::bounds(a.index[d], extents);
      const ir::Index x = axis("d" + std::to_string(d), most - least + 1);
      rows.shape.emplace_back(most - least + 1);
      s.index.push_back(x), from.index.push_back(x + ir::Index::number(least));
      moved.index.push_back(a.index[d] + ir::Index::number(-least));
    }
    const ir::Index place = axis(n.axes[size_t(along)].name, extent(n, along)), in_row = axis("in_row", length);
    std::vector<ir::Index> with(n.axes.size(), ir::Index::number(0));
    with[size_t(along)] = place;
    from.index.push_back(ir::substitute(a.index[p.places], with) * channels + in_row);
    s.index.push_back(place), s.index.push_back(in_row);
    moved.index.push_back(ir::Index::axis(along)), moved.index.push_back(ir::Index::axis(p.inner));
    rows.shape.emplace_back(extent(n, along)), rows.shape.emplace_back(round_up(length, kPieceBytes / size_of(t.dtype)));
    rows.strides = ir::row_major(rows.shape);
    rows.shape.back() = ir::Size(length);
    insert_copy(nest, std::move(copy), std::move(s), std::move(from), std::move(rows), p.places);
    return moved;
  }

  /// Before the nest, one that copies the tensor with all places that the access reaches; both tensors have rows of places and channels as
  /// one dimension. The access to the copy, its last index in places.
  ir::Access copy_bordered(size_t& nest, const ir::Access& a, size_t places) {
    const int to = int(program_->tensors.size());
    const ir::Tensor& t = program_->tensors[size_t(a.tensor)];
    const int64_t channels = t.shape.back().value();
    const std::vector<int64_t> extents = nests_[nest].full_extents();
    ir::Tensor bordered{unused_name(*program_, t.name + "_bordered"), {}, t.dtype, ir::TensorKind::intermediate, {}, false};
    ir::Access moved{to, {}, {}}, from{a.tensor, {}, a.out_of_bounds};
    Nest copy;
    Statement s{to, {}, ir::ReduceOp::none, nullptr, true};
    for (size_t d = 0; d <= places; ++d) {
      const auto [least, most] = ir::bounds(a.index[d], extents);
      const int64_t lo = std::min<int64_t>(least, 0), count = std::max(most + 1, t.shape[d].value()) - lo,
                    unit = d == places ? channels : 1;
      moved.index.push_back(a.index[d] + ir::Index::number(-lo));
      bordered.shape.emplace_back(count * unit);
      copy.axes.push_back({"d" + std::to_string(d), count * unit, false});
      s.index.push_back(ir::Index::axis(int(d)));
      from.index.push_back(ir::Index::axis(int(d)) + ir::Index::number(lo * unit));
    }
    bordered.strides = ir::row_major(bordered.shape);
    insert_copy(nest, std::move(copy), std::move(s), std::move(from), std::move(bordered), places);
    return moved;
  }
};

}  // namespace

std::optional<Rewritten> join_reduced(const ir::TensorProgram& program, const std::vector<Nest>& nests, const hw::Profile& profile) {
  return Joining(program, nests, profile).run();
}

}  // namespace rgen::rtile
