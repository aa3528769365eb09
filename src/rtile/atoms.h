// The atom table: what an instruction of a profile is called in a loop program, and how operands reach it. A new instruction is one
// row here and one primitive in the emitter's preludes.
#pragma once
#include <span>
#include <string_view>

#include "rtile/rprogram.h"

namespace rgen::rtile {

struct AtomRow {
  std::string_view atom;  ///< name in a profile
  AtomForm form;
  std::string_view primitive;  ///< accumulator += a·b
  bool offset_a = false;       ///< takes unsigned a; signed bytes reach it with their sign bit flipped, corrected by −128·Σb
  int instructions = 1;        ///< ... one product takes
};
std::span<const AtomRow> atom_rows();
/// nullptr: no emitter knows the instruction.
const AtomRow* find_atom_row(std::string_view atom);

}  // namespace rgen::rtile
