#include "fuzz/features.h"

#include <cctype>
#include <set>

#include "emit/prelude.h"
#include "rtile/rprogram.h"

namespace rgen::fuzz {

namespace {

using Features = std::set<std::string>;

void of_inputs(const ir::TensorProgram& program, Features& f) {
  for (int i : program.inputs) {
    const ir::Tensor& t = program[i];
    f.insert("dtype " + std::string(to_string(t.dtype)));
    f.insert("rank " + std::to_string(t.shape.size()));
    if (t.constant) f.insert("input constant");
    bool zero = false;
    for (const ir::Size& s : t.strides) zero |= s.value() == 0;
    if (zero)
      f.insert("strides repeat");
    else if (t.strides != ir::row_major(t.shape))
      f.insert(t.strides.back().value() == 1 ? "strides pitch" : "strides other");
    else
      f.insert("strides dense");
  }
}

void of_stages(const ir::TensorProgram& program, Features& f) {
  f.insert("stages " + std::to_string(std::min<size_t>(program.stages.size(), 5)));
  for (const ir::Stage& s : program.stages) {
    const ir::Tensor& out = program[s.output];
    f.insert("rank " + std::to_string(out.shape.size()));
    if (out.kind == ir::TensorKind::output) f.insert("output " + std::string(to_string(out.dtype)));
    f.insert("reduction " + (s.reduce == ir::ReduceOp::none ? "none" : std::string(to_string(s.reduce))));
    ir::for_each_access(*s.body, [&](const ir::Access& a) {
      if (a.out_of_bounds) f.insert("access out of bounds");
      for (const ir::Index& i : a.index) {
        if (!i.is_affine()) f.insert("access / or %");
        for (const ir::Index::Term& t : i.terms)
          if (t.coef < 0)
            f.insert("access reversed");
          else if (t.coef > 1)
            f.insert("access in steps");
      }
    });
  }
  if (program.outputs.size() > 1) f.insert("outputs several");
}

void of_operand(const rtile::Operand& o, Features& f) {
  switch (o.placement) {
    case rtile::Placement::direct:
      f.insert("placement direct");
      break;
    case rtile::Placement::prepack:
      f.insert("placement prepack");
      break;
    case rtile::Placement::repack:
      f.insert("placement packed copy");
      break;
    case rtile::Placement::box:
      f.insert("placement padded copy");
      break;
  }
  if (o.transposed) f.insert("placement transposed");
}

void of_nest(const rtile::Nest& nest, const rtile::NestPlan& p, Features& f) {
  switch (p.form) {
    case rtile::AtomForm::vector:
      f.insert(p.lanes > 1 ? "form vector" : "form scalar");
      break;
    case rtile::AtomForm::group:
      f.insert("form group");
      break;
    case rtile::AtomForm::warp:
    case rtile::AtomForm::staged:
    case rtile::AtomForm::matrix:
      f.insert("form matrix");
      break;
  }
  if (nest.has_reduction()) f.insert("atom " + p.atom->name);
  if (nest.axes[size_t(p.vec)].reduced) f.insert("vector axis reduced");
  for (const rtile::Operand& o : p.operands) of_operand(o, f);
  if (p.store_transpose_axis >= 0) f.insert("store transposed");
  if (p.guarded) f.insert("tile guarded");
  if (p.chunked()) f.insert("loops chunked reduction");
  for (const rtile::Loop& l : p.loops)
    if (l.step > 1 && !nest.axes[size_t(l.axis)].reduced) f.insert("loops cache tile");
  for (size_t a = 0; a < nest.axes.size(); ++a) {
    const rtile::Blocking& b = p.tile[a];
    if (nest.axes[a].reduced) continue;
    if (b.ragged()) f.insert("tile ragged");
    if (int(a) == p.vec && b.tail() != b.unit) f.insert("tile tail");
  }
  if (p.tasks() > 1) f.insert(p.parallel.size() > 1 ? "parallel two axes" : "parallel one axis");
  if (nest.inner.size() > 1) f.insert("nest fused points");
  if (!nest.outer.empty()) f.insert("nest epilogue");
}

void of_plan(const rtile::RProgram& plan, Features& f) {
  size_t nests = 0;
  for (const rtile::GroupPlan& g : plan.groups) {
    nests += g.nests.size();
    if (!g.shared.empty()) {
      f.insert("group fused over " + std::to_string(g.shared.size()) + (g.shared.size() == 1 ? " axis" : " axes"));
      if (g.tasks > 1) f.insert("group parallel");
      for (const rtile::Blocking& s : g.shared)
        if (s.ragged()) f.insert("group ragged");
    }
    for (size_t n = 0; n < g.nests.size(); ++n) of_nest(g.group.nests[n], g.nests[n], f);
  }
  f.insert("nests " + std::to_string(std::min<size_t>(nests, 4)));
}

/// Names called in the text, of functions as the primitives are named.
void of_source(const std::string& source, Features& f) {
  static const std::vector<std::string> list = known_primitives();
  static const std::set<std::string> known(list.begin(), list.end());
  std::string word;
  for (char c : source) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      word += c;
      continue;
    }
    if (c == '(' && known.count(word)) f.insert("primitive " + word);
    word.clear();
  }
}

}  // namespace

std::vector<std::string> known_primitives() {
  std::set<std::string> all;
  for (emit::Simd simd : {emit::Simd::avx512, emit::Simd::avx512vl, emit::Simd::avx2, emit::Simd::portable})
    for (const std::string& name : emit::prelude_names(simd))
      if (name.starts_with("vf_") || name.starts_with("vi_") || name.starts_with("tile_")) all.insert(name);
  return {all.begin(), all.end()};
}

std::vector<std::string> features(const ir::TensorProgram& program, const rtile::Candidate& plan, const emit::Emitted& code,
                                  const Setting& setting) {
  Features f;
  f.insert("profile " + setting.profile);
  f.insert("threads " + std::to_string(setting.threads));
  f.insert("plan " + std::string(setting.rank == 0 ? "best" : "other"));
  of_inputs(program, f);
  of_stages(program, f);
  of_plan(*plan.program, f);
  of_source(code.source, f);
  return {f.begin(), f.end()};
}

}  // namespace rgen::fuzz
