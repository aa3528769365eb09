#include "ir/presets.h"

#include <algorithm>

#include "base/embedded.h"
#include "base/error.h"
#include "ir/ir.h"

namespace rgen::ir {

namespace {

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& f : embedded_ops()) names.emplace_back(f.name);
  return names;
}

DType output_dtype(DType data) { return is_float(data) ? data : DType::s32; }

Epilogue epilogue_of(const Value& spec, const Json& document) {
  Epilogue e;
  e.channel = document.value("channel", "");
  if (spec.has("epilogue")) {
    const std::vector<std::string> known = epilogue_names();
    for (const Value& v : spec["epilogue"].elements()) {
      e.chain.push_back(v.string());
      if (std::find(known.begin(), known.end(), e.chain.back()) == known.end())
        v.fail("unknown epilogue '" + e.chain.back().substr(0, 80) + "'" + did_you_mean(e.chain.back(), known));
    }
    if (e.chain.size() > 64) spec["epilogue"].fail("the epilogue has more than 64 steps");
  }
  const std::string implied = document.value("implied_epilogue", "");
  if (!implied.empty() && std::find(e.chain.begin(), e.chain.end(), implied) == e.chain.end()) e.chain.insert(e.chain.begin(), implied);
  return e;
}

/// The statement of a list of alternatives, or of a single text, that holds.
std::vector<std::string> statements_of(const Json& document, const Bindings& bindings) {
  std::vector<std::string> r;
  for (const Json& s : document.value("compute", Json::array()))
    if (s.is_string())
      r.push_back(bindings.text(s));
    else if (bindings.holds(s.at("when")))
      r.push_back(bindings.text(s.at("is")));
  return r;
}

void add_inputs(Draft& draft, const Json& document, const Bindings& bindings, DType data) {
  for (const Json& in : document.at("inputs")) {
    if (in.contains("when") && !bindings.holds(in.at("when"))) continue;
    DraftInput input;
    input.name = in.at("name");
    input.place = draft.place;
    input.shape = bindings.shape(in.at("shape"), draft.place);
    input.dtype = in.contains("dtype") ? *parse_dtype(in.at("dtype").get<std::string>()) : data;
    if (in.contains("constant")) {
      const Json& c = in.at("constant");
      input.constant = c.is_boolean() ? c.get<bool>() : bindings.holds(c);
    }
    draft.inputs.push_back(std::move(input));
  }
}

}  // namespace

Json preset_document(const std::string& op, const std::string& place) {
  for (const EmbeddedFile& f : embedded_ops())
    if (f.name == op) return parse_json(f.text, "ops/" + op + ".json");
  std::string known;
  for (const std::string& n : preset_names()) known += (known.empty() ? "" : ", ") + n;
  throw Error(ErrorCode::invalid_spec, "unknown op '" + op.substr(0, 80) + "'" + did_you_mean(op, preset_names()) + "; known are " + known,
              place);
}

Draft preset_draft(const Value& spec, const std::string& name, Math math) {
  spec.only_keys({"name", "op", "dtype", "params", "epilogue", "math", "family", "notes", "version"}, "a preset");
  const Json document = preset_document(spec["op"].string(), spec["op"].place());
  const DType data = spec.has("dtype") ? spec["dtype"].dtype() : DType::f32;

  Epilogue epilogue = epilogue_of(spec, document);
  const auto has_step = [&](const char* step) { return std::count(epilogue.chain.begin(), epilogue.chain.end(), step) > 0; };
  const Json& parameters = document.at("parameters");
  std::vector<std::string> known;
  for (const auto& item : parameters.items()) known.push_back(item.key());
  known.push_back("out");
  if (has_step("scale")) known.push_back("scale");
  if (has_step("batchnorm")) known.push_back("eps");
  const Json no_params = Json::object();
  const Value params = spec.has("params") ? spec["params"] : Value(no_params, spec.place());
  params.only_keys(known, "the params of " + spec["op"].string());

  Bindings bindings{std::string(to_string(data))};
  for (const auto& item : parameters.items())
    bindings.parameter(item.key(), item.value(), params.has(item.key().c_str()) ? std::optional(params[item.key()]) : std::nullopt, params);
  for (const Json& entry : document.value("let", Json::array())) bindings.let(entry, params);

  const DType out = params.has("out") ? params["out"].dtype() : output_dtype(data);
  epilogue.dtype = data;
  if (has_step("scale")) {
    if (!params.has("scale")) params.fail("the epilogue 'scale' needs \"scale\" in \"params\"");
    epilogue.scale = params["scale"].number();
  }
  if (has_step("batchnorm") && params.has("eps")) epilogue.eps = params["eps"].number();

  Draft draft;
  draft.name = name;
  draft.place = spec.place();
  draft.math = math;
  draft.dims = bindings.dims();
  add_inputs(draft, document, bindings, data);
  for (const std::string& s : statements_of(document, bindings)) draft.statements.push_back({s, draft.place});
  const std::string result =
      document.contains("generate") ? append_mlp_layers(draft, bindings, data) : bindings.text(document.at("result").get<std::string>());
  append_epilogue(draft, result, epilogue);
  draft.outputs.push_back({"out", out, draft.place});
  return draft;
}

std::vector<PresetInfo> list_presets() {
  std::vector<PresetInfo> presets;
  for (const std::string& name : preset_names()) {
    const Json document = preset_document(name, "ops");
    PresetInfo info;
    info.name = name;
    info.summary = document.at("summary");
    for (const Json& s : document.value("compute", Json::array()))
      info.expression += (s.is_string() ? s : s.at("is")).get<std::string>() + "\n";
    info.expression += document.value("result", "");
    for (const auto& item : document.at("parameters").items()) {
      const Json& d = item.value();
      std::string meaning = d.at("meaning");
      if (d.contains("default"))
        meaning += " (default " + (d.at("default").is_string() ? d.at("default").get<std::string>() : d.at("default").dump()) + ")";
      info.parameters.push_back({item.key(), d.at("type"), meaning, d.value("required", false)});
    }
    info.parameters.push_back({"out", "dtype", "dtype of out (default: that of the data, s32 for s8 and u8)", false});
    presets.push_back(std::move(info));
  }
  return presets;
}

}  // namespace rgen::ir
