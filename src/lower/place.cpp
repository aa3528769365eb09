// Operand placement: the caller's layout as it is, a packed constant (`pack.cpp`), an activation packed at every call (`repack.cpp`) or a
// padded copy (`padded_copy.cpp`).
#include "lower/context.h"
#include "rtile/layout.h"

namespace rgen::lower {

namespace {

void place_direct(NestContext& c, size_t i) {
  const ir::Access& access = c.plan.operands[i].access;
  const Location& at = c.location.at(access.tensor);
  const std::vector<int64_t> zeros(c.nest.axes.size(), 0);
  Addressing m{at.buffer, zeros, zeros, zeros, zeros, 0, at.tile_local};
  if (rtile::is_affine(access.index)) {
    const rtile::Linear l = rtile::linearise(access.index, at.strides, int(zeros.size()));
    m.value = m.inside = l.coef;
    m.constant = l.constant;
  }
  c.addressing[i] = std::move(m);
}

}  // namespace

void place_operands(NestContext& c) {
  c.addressing.resize(c.plan.operands.size());
  for (size_t i = 0; i < c.plan.operands.size(); ++i) switch (c.plan.operands[i].placement) {
      case rtile::Placement::direct:
        place_direct(c, i);
        break;
      case rtile::Placement::prepack:
        lower_prepack(c, int(i));
        break;
      case rtile::Placement::repack:
        lower_repack(c, int(i));
        break;
      case rtile::Placement::box:
        lower_box(c, int(i));
        break;
    }
}

}  // namespace rgen::lower
