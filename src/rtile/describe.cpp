#include "rtile/describe.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

namespace rgen::rtile {

using json = nlohmann::ordered_json;

namespace {

double rounded(double us) { return std::round(us * 1000) / 1000; }

json estimate_json(const hw::Profile& profile, const hw::Estimate& e) {
  json j{{"us", rounded(e.us)}, {"bound", e.bound}, {"compute_us", rounded(e.compute_us)}};
  for (size_t l = 0; l < e.level_us.size(); ++l) j[profile.levels[l].name + "_us"] = rounded(e.level_us[l]);
  j["overhead_us"] = rounded(e.overhead_us);
  return j;
}

const char* name(Placement p) {
  switch (p) {
    case Placement::direct:
      return "direct";
    case Placement::prepack:
      return "prepack";
    case Placement::repack:
      return "packed copy";
    case Placement::box:
      return "padded copy";
  }
  return "";
}

std::string brought(const Operand& o) {
  return (o.streams > 1 ? ", " + std::to_string(o.streams) + " streams" : "") + (o.ahead > 0 ? ", fetched ahead" : "") +
         (o.next_step > 0 ? ", later steps asked for" : "") + (o.past_first ? ", past the first cache" : "");
}

json nest_json(const ir::TensorProgram& program, const hw::Profile& profile, const Nest& n, const NestPlan& p) {
  json j;
  json axes = json::array();
  for (size_t a = 0; a < n.axes.size(); ++a) {
    json x{{"name", n.axes[a].name}, {"extent", n.axes[a].extent}, {"tile", std::min(p.tile[a].hi * p.tile[a].unit, n.axes[a].extent)}};
    if (n.axes[a].reduced) x["reduced"] = true;
    if (p.taps_along(int(a))) x["padding"] = "left out";
    if (int(a) == p.vec) x["vector"] = p.lanes;
    axes.push_back(std::move(x));
  }
  j["axes"] = std::move(axes);
  json loops = json::array();
  for (const Loop& l : p.loops) {
    const Blocking& t = p.tile[size_t(l.axis)];
    const bool reduced = n.axes[size_t(l.axis)].reduced;
    loops.push_back({{"axis", n.axes[size_t(l.axis)].name}, {"step", reduced ? l.step : std::min(l.step * t.hi * t.unit, t.extent)}});
  }
  j["loops"] = std::move(loops);
  if (p.staging) {
    const Staging& s = *p.staging;
    j["block"] = {{"rows", s.block_rows()},  {"columns", p.block_columns()}, {"warps", {s.warp_rows, s.warp_columns}},
                  {"k", s.depth * p.k_step}, {"stages", s.stages},           {"raster", s.raster}};
    if (s.producers() > 0)
      j["block"].update({{"producers", s.producers()},
                         {"turns", s.turns},
                         {"cluster", s.cluster},
                         {"parts", s.parts},
                         {"grid", s.grid},
                         {"tensor_copies", s.tensor_copies}});
  }
  j["atom"] = p.atom ? p.atom->name : "";
  json operands = json::object();
  for (const Operand& o : p.operands)
    operands[program[o.access.tensor].name] = std::string(name(o.placement)) +
                                              (o.neighbours > 0 ? ", de-interleaved"
                                               : o.transposed   ? ", transposed"
                                                                : "") +
                                              brought(o);
  j["operands"] = std::move(operands);
  if (p.finish_axis >= 0) j["finished_along"] = n.axes[size_t(p.finish_axis)].name;
  if (p.store_transpose_axis >= 0) j["stored_along"] = n.axes[size_t(p.store_transpose_axis)].name;
  if (p.stream) j["streamed"] = true;
  if (p.peeled) j["peeled"] = true;
  if (p.combining) j["pieces"] = {{"rows", p.buffered_rows()}, {"elements", p.buffered_columns()}};
  json parallel = json::array();
  for (const Parallel& x : p.parallel) parallel.push_back({{"axis", n.axes[size_t(x.axis)].name}, {"parts", x.parts}});
  j["parallel"] = std::move(parallel);
  if (profile.kind == hw::Profile::Kind::gpu && !p.staging) j["block"] = {{"tasks", p.block_tasks}, {"rows", p.block_rows}};
  j["estimate"] = estimate_json(profile, p.estimate);
  return j;
}

/// Pre: `profile` is the one that the program was planned for (Profile::halved).
bool in_half_vectors(const hw::Profile& profile, const RProgram& plan) { return profile.avx512 && plan.vector_bits == 256; }

std::string block_text(const Nest& n, const NestPlan& p) {
  const Staging& s = *p.staging;
  std::ostringstream o;
  o << "block tile: " << s.block_rows() << " rows of ";
  if (s.row_axes.empty()) o << "one";
  for (size_t i = 0; i < s.row_axes.size(); ++i) o << (i ? " x " : "") << n.axes[size_t(s.row_axes[i])].name;
  o << ", " << p.block_columns() << " columns of " << n.axes[size_t(p.vec)].name << "; " << s.warp_rows << " x " << s.warp_columns
    << " warps, " << s.stages << " stages of " << s.depth * p.k_step << " along " << n.axes[size_t(p.k_axis)].name;
  if (s.raster > 1) o << ", columns walked " << s.raster << " row blocks at a time";
  if (s.producers() > 0)
    o << "; " << (s.tensor_copies ? "the copy unit brings boxes, " : std::to_string(s.producers()) + " warps copy, ") << s.grid
      << " blocks walk the tasks";
  if (s.turns > 1) o << ", by " << s.turns << " groups in turn";
  if (s.cluster > 1) o << ", " << s.cluster << " together";
  if (s.parts > 1) o << ", " << s.parts << " share one's " << n.axes[size_t(p.k_axis)].name;
  return o.str();
}

std::string tile_text(const Nest& n, const NestPlan& p) {
  std::ostringstream o;
  const char* separator = "";
  for (size_t a = 0; a < n.axes.size(); ++a) {
    const int64_t size = std::min(p.tile[a].hi * p.tile[a].unit, n.axes[a].extent);
    if (size == 1 && int(a) != p.vec) continue;
    o << separator << n.axes[a].name << ' ' << size << (int(a) == p.vec ? " (vector)" : n.axes[a].reduced ? " (unrolled)" : "");
    separator = ", ";
  }
  return o.str();
}

std::string time_text(const hw::Profile& profile, const hw::Estimate& e) {
  std::ostringstream o;
  char part[256];
  std::snprintf(part, sizeof part, "  time: compute %.4g", e.compute_us);
  o << part;
  for (size_t l = 0; l < e.level_us.size(); ++l) {
    std::snprintf(part, sizeof part, ", %s %.4g", profile.levels[l].name.c_str(), e.level_us[l]);
    o << part;
  }
  std::snprintf(part, sizeof part, ", overhead %.4g us; bound by %s", e.overhead_us, e.bound.c_str());
  o << part << "\n";
  return o.str();
}

}  // namespace

std::string plan_json(const ir::TensorProgram& program, const hw::Profile& profile, const RProgram& plan, const hw::Estimate& estimate) {
  json groups = json::array();
  for (const GroupPlan& g : plan.groups) {
    json nests = json::array();
    for (size_t n = 0; n < g.nests.size(); ++n) nests.push_back(nest_json(program, profile, g.group.nests[n], g.nests[n]));
    json j{{"nests", std::move(nests)}};
    if (!g.shared.empty()) {
      json shared = json::array();
      for (size_t k = 0; k < g.shared.size(); ++k)
        shared.push_back({{"axis", g.group.shared_axis(k).name}, {"extent", g.shared[k].extent}, {"tile", g.shared[k].hi}});
      j["fused_over"] = std::move(shared);
      j["tasks"] = g.tasks;
      if (g.tile_warps > 1) j["warps"] = g.tile_warps;
      j["estimate"] = estimate_json(profile, g.estimate);
    }
    groups.push_back(std::move(j));
  }
  json j{{"threads", plan.threads}, {"groups", std::move(groups)}, {"estimate", estimate_json(profile, estimate)}};
  if (in_half_vectors(profile, plan)) j["half_vectors"] = true;
  return j.dump();
}

std::string explain(const ir::TensorProgram& program, const hw::Profile& profile, const RProgram& plan, const hw::Estimate& estimate,
                    double limit_us, const std::string& limit_bound) {
  std::ostringstream o;
  char line[256];
  std::snprintf(line, sizeof line, "predicted %.4g us, bound by %s; the machine's limit for this work is %.4g us (%s)", estimate.us,
                estimate.bound.c_str(), limit_us, limit_bound.c_str());
  o << line << "\n";
  if (in_half_vectors(profile, plan)) o << "in half vectors, of " << plan.vector_bits << " bits\n";
  for (const ir::Tensor& t : program.tensors)
    if (t.within >= 0) o << t.name << " in the place of " << program[t.within].name << "\n";
  for (const GroupPlan& g : plan.groups) {
    for (const Nest& n : g.group.nests)
      for (const NestAxis& a : n.axes)
        if (a.apart) o << "rows from " << a.extent << " parts of the tensor by turns (" << a.name << ")\n";
    if (!g.shared.empty()) {
      o << "fused over";
      for (size_t k = 0; k < g.shared.size(); ++k)
        o << (k ? ", " : " ") << g.group.shared_axis(k).name << " in tiles of " << g.shared[k].hi;
      o << ", " << g.tasks << " tasks"
        << (g.tile_warps > 1    ? ", " + std::to_string(g.tile_warps) + " warps each"
            : g.block_tasks > 0 ? ", a warp each"
                                : "")
        << "\n";
      if (g.block_tasks > 0) o << time_text(profile, g.estimate);  // of its nests together: they run in the same warps
    }
    for (size_t i = 0; i < g.nests.size(); ++i) {
      const Nest& n = g.group.nests[i];
      const NestPlan& p = g.nests[i];
      if (n.copies) {
        const DType from = program[p.operands[0].access.tensor].dtype, to = program[n.inner[0].tensor].dtype;
        o << "copy of " << program[p.operands[0].access.tensor].name;
        if (to == from)
          o << " in another layout; ";
        else
          o << " as " << to_string(to) << "; ";
      }
      if (n.of_windows) o << "windows of " << program[p.operands[0].access.tensor].name << " by rows, then by columns; ";
      o << (p.staging ? block_text(n, p) : "register tile: " + tile_text(n, p)) << "; " << (p.atom ? p.atom->name : "") << "\n";
      o << (p.staging ? "  tasks" : "  loops:");
      for (const Loop& l : p.loops) {
        const Blocking& t = p.tile[size_t(l.axis)];
        o << ' ' << n.axes[size_t(l.axis)].name << ':'
          << (n.axes[size_t(l.axis)].reduced ? l.step : std::min(l.step * t.hi * t.unit, t.extent));
      }
      for (const Parallel& x : p.parallel)
        o << "; " << x.parts << (g.tile_warps > 1 ? " warps along " : " tasks along ") << n.axes[size_t(x.axis)].name;
      for (int a : p.reduce_order)
        if (p.taps_along(a)) o << "; " << n.axes[size_t(a)].name << " without padding";
      if (p.finish_axis >= 0) o << "; finished along " << n.axes[size_t(p.finish_axis)].name;
      if (p.store_transpose_axis >= 0) o << "; stored along " << n.axes[size_t(p.store_transpose_axis)].name;
      if (p.stream) o << "; streamed past the caches";
      if (p.peeled) o << ", from line to line of each row";
      if (p.combining) o << " in pieces of " << p.buffered_columns() << " of " << p.buffered_rows() << " rows";
      for (const Operand& x : p.operands)
        if (x.placement != Placement::direct || x.transposed || x.ahead > 0 || x.next_step > 0 || x.past_first)
          o << "; " << program[x.access.tensor].name << ' '
            << (x.neighbours > 0 ? "de-interleaved"
                : x.transposed   ? "transposed in registers"
                                 : name(x.placement))
            << brought(x);
      o << "\n";
      if (g.block_tasks == 0) o << time_text(profile, p.estimate);
    }
  }
  return o.str();
}

}  // namespace rgen::rtile
