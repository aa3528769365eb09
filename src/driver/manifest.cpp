#include "driver/manifest.h"

#include <nlohmann/json.hpp>

#include "emit/backend.h"

namespace rgen::driver {

namespace {

using Json = nlohmann::ordered_json;

Json tensor(const ir::Tensor& t, bool is_input, int alignment) {
  Json shape = Json::array(), strides = Json::array();
  for (const ir::Size& s : t.shape) shape.push_back(s.value());
  for (const ir::Size& s : t.strides) strides.push_back(s.value());
  Json j = {{"name", t.name}, {"shape", shape}, {"dtype", to_string(t.dtype)}, {"strides", strides}};
  if (is_input) j["constant"] = t.constant;
  j["alignment"] = alignment;
  return j;
}

/// The name of the tensor at a position of the arguments: inputs, then outputs.
const std::string& argument_name(const ir::TensorProgram& program, int position) {
  const size_t i = size_t(position), n_inputs = program.inputs.size();
  return program[i < n_inputs ? program.inputs[i] : program.outputs.at(i - n_inputs)].name;
}

/// Shared memory is what the launch asks for, beside what the kernel declares.
Json launch(const emit::Launch& l, Json args) {
  return {{"symbol", l.symbol},   {"grid", {l.grid, 1, 1}}, {"block", {l.block, 1, 1}}, {"shared_bytes", l.shared_bytes},
          {"cluster", l.cluster}, {"args", std::move(args)}};
}

Json argument(const emit::Launch::Arg& a, const ir::TensorProgram& program) {
  Json of = a.tensor >= 0 ? Json{{"tensor", argument_name(program, a.tensor)}} : Json{{"workspace", a.workspace}};
  if (!a.map) return of;
  of.update({{"dtype", a.map->tf32 ? "tf32" : to_string(a.map->dtype)},
             {"offset", a.map->offset},
             {"extents", a.map->extents},
             {"strides", a.map->strides},
             {"box", a.map->box},
             {"swizzle", lower::TensorMap::kRowBytes}});
  if (a.map->pixels()) of.update({{"lower", a.map->lower}, {"upper", a.map->upper}, {"steps", a.map->steps}});
  return {{"tma", of}};
}

Json launch(const emit::Launch& l, const ir::TensorProgram& program) {
  Json args = Json::array();
  for (const emit::Launch::Arg& a : l.args) args.push_back(argument(a, program));
  return launch(l, std::move(args));
}

Json prepack_entry(const emit::PrepackEntry& p, const ir::TensorProgram& program, bool cuda) {
  Json j = {{"input", program[program.inputs[size_t(p.input)]].name}, {"symbol", p.symbol}, {"bytes", p.bytes}};
  if (cuda) j["launch"] = launch(p.launch, Json::array({{{"src", true}}, {{"dst", true}}}));
  return j;
}

}  // namespace

std::string print_manifest(const Planned& planned, const emit::Emitted& code) {
  const ir::TensorProgram& program = *planned.program;
  Json inputs = Json::array(), outputs = Json::array(), dims = Json::array(), prepack = Json::array();
  const bool cuda = planned.profile->kind == hw::Profile::Kind::gpu;
  const auto alignment = [&](const ir::Tensor& t) { return cuda ? emit::kCudaAlignment : size_of(t.dtype); };  // C++ loads unaligned
  for (int i : program.inputs) inputs.push_back(tensor(program[i], true, alignment(program[i])));
  for (int o : program.outputs) outputs.push_back(tensor(program[o], false, alignment(program[o])));
  for (const ir::Dim& d : program.dims) dims.push_back(d.name);
  for (const emit::PrepackEntry& p : code.prepack) prepack.push_back(prepack_entry(p, program, cuda));
  Json manifest = {{"rgen", RGEN_VERSION}, {"name", program.name}, {"symbol", code.symbol}, {"target", planned.target}, {"isa", code.isa}};
  if (cuda) manifest["arch"] = emit::cuda_arch(*planned.profile);
  manifest["profile"] = planned.profile->name;
  manifest["profile_hash"] = planned.profile->hash;
  manifest["inputs"] = inputs;
  manifest["outputs"] = outputs;
  manifest["dims"] = dims;
  manifest["workspace_bytes"] = code.workspace_bytes;
  manifest["prepack"] = prepack;
  if (cuda) {
    manifest["launch"] = Json::array();
    for (const emit::Launch& l : code.launches) manifest["launch"].push_back(launch(l, program));
  }
  manifest["predicted_us"] = planned.candidate.estimate.us;
  manifest["plan"] = Json::parse(planned.candidate.plan_json);
  return manifest.dump(2) + "\n";
}

}  // namespace rgen::driver
