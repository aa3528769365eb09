#include "rtile/atoms.h"

namespace rgen::rtile {

std::span<const AtomRow> atom_rows() {
  static constexpr AtomRow rows[] = {
      {"fma", AtomForm::vector, "vf_fma"},          {"vdpbf16ps", AtomForm::group, "vf_dpbf16"},
      {"bfdot", AtomForm::group, "vf_dpbf16"},      {"vpdpbusd", AtomForm::group, "vi_dpbusd", true},
      {"usdot", AtomForm::group, "vi_dpbusd"},      {"sdot", AtomForm::group, "vi_dpbssd"},
      {"udot", AtomForm::group, "vi_dpbuud"},       {"tdpbf16ps", AtomForm::matrix, "tile_dpbf16"},
      {"tdpbssd", AtomForm::matrix, "tile_dpbssd"}, {"tdpbusd", AtomForm::matrix, "tile_dpbusd"},
      {"dp4a", AtomForm::group, "vi_dpbssd"},       {"mma.sync", AtomForm::warp, "mma"},
      {"wgmma", AtomForm::staged, "wgmma"},         {"vpmaddwd", AtomForm::group, "vi_dpwssd", false, 2},
  };
  return rows;
}

const AtomRow* find_atom_row(std::string_view atom) {
  for (const AtomRow& r : atom_rows())
    if (r.atom == atom) return &r;
  return nullptr;
}

}  // namespace rgen::rtile
