#include "driver/manifest.h"

#include <nlohmann/json.hpp>

namespace rgen::driver {

namespace {

using Json = nlohmann::ordered_json;

Json tensor(const ir::Tensor& t, bool is_input) {
  Json shape = Json::array(), strides = Json::array();
  for (const ir::Size& s : t.shape) shape.push_back(s.value());
  for (const ir::Size& s : t.strides) strides.push_back(s.value());
  Json j = {{"name", t.name}, {"shape", shape}, {"dtype", to_string(t.dtype)}, {"strides", strides}};
  if (is_input) j["constant"] = t.constant;
  j["alignment"] = size_of(t.dtype);  // kernels load and store unaligned
  return j;
}

}  // namespace

std::string print_manifest(const Planned& planned, const emit::Emitted& code) {
  const ir::TensorProgram& program = *planned.program;
  Json inputs = Json::array(), outputs = Json::array(), dims = Json::array(), prepack = Json::array();
  for (int i : program.inputs) inputs.push_back(tensor(program[i], true));
  for (int o : program.outputs) outputs.push_back(tensor(program[o], false));
  for (const ir::Dim& d : program.dims) dims.push_back(d.name);
  for (const emit::PrepackEntry& p : code.prepack)
    prepack.push_back({{"input", program[program.inputs[size_t(p.input)]].name}, {"symbol", p.symbol}, {"bytes", p.bytes}});
  return Json{{"rgen", RGEN_VERSION},
              {"name", program.name},
              {"symbol", code.symbol},
              {"target", planned.target},
              {"isa", code.isa},
              {"profile", planned.profile->name},
              {"profile_hash", planned.profile->hash},
              {"inputs", inputs},
              {"outputs", outputs},
              {"dims", dims},
              {"workspace_bytes", code.workspace_bytes},
              {"prepack", prepack},
              {"predicted_us", planned.candidate.estimate.us},
              {"plan", Json::parse(planned.candidate.plan_json)}}
             .dump(2) +
         "\n";
}

}  // namespace rgen::driver
