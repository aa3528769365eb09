// JSON documents and the short form → programs.
#include <algorithm>

#include "base/error.h"
#include "ir/document.h"
#include "ir/ir.h"
#include "ir/presets.h"

namespace rgen::ir {

namespace {

Math math_of(const Value& spec) {
  if (!spec.has("math")) return Math::ieee;
  const std::string name = spec["math"].string();
  if (name == "ieee") return Math::ieee;
  if (name == "tf32") return Math::tf32;
  if (name == "bf16x3") return Math::bf16x3;
  spec["math"].fail("unknown math '" + name.substr(0, 80) + "'" + did_you_mean(name, {"ieee", "tf32", "bf16x3"}) +
                    "; known are ieee, tf32, bf16x3");
}

std::vector<SizeText> size_texts(const Value& list) {
  std::vector<SizeText> r;
  for (const Value& v : list.elements()) r.push_back(v.size_text());
  return r;
}

DraftInput input_of(const std::string& name, const Value& spec) {
  spec.only_keys({"shape", "dtype", "constant", "strides", "out_of_bounds"}, "an input");
  DraftInput in;
  in.name = name;
  in.place = spec.place();
  if (!spec.has("shape")) spec.fail("input '" + name + "' has no \"shape\"");
  in.shape = size_texts(spec["shape"]);
  if (spec.has("dtype")) in.dtype = spec["dtype"].dtype();
  if (spec.has("constant")) in.constant = spec["constant"].boolean();
  if (spec.has("strides")) in.strides = size_texts(spec["strides"]);
  if (spec.has("strides") && in.strides.empty() && !in.shape.empty()) spec["strides"].fail("there is no stride; give one per dimension");
  if (spec.has("out_of_bounds")) in.out_of_bounds = spec["out_of_bounds"].number_or_infinity();
  return in;
}

DraftOutput output_of(const Value& spec) {
  if (spec.json().is_string()) return {spec.string(), {}, spec.place()};
  spec.only_keys({"name", "dtype"}, "an output");
  if (!spec.has("name")) spec.fail("this output has no \"name\"");
  DraftOutput out{spec["name"].string(), {}, spec.place()};
  if (spec.has("dtype")) out.dtype = spec["dtype"].dtype();
  return out;
}

Draft expression_draft(const Value& spec, const std::string& name) {
  spec.only_keys({"name", "dims", "inputs", "compute", "outputs", "math", "family", "notes", "version"}, "a tensor expression");
  Draft d;
  d.name = name;
  d.place = spec.place();
  d.math = math_of(spec);
  if (spec.has("dims"))
    for (const auto& [key, v] : spec["dims"].members()) d.dims.push_back(draft_dim(key, v));
  if (spec.has("inputs"))
    for (const auto& [key, v] : spec["inputs"].members()) d.inputs.push_back(input_of(key, v));
  const Value compute = spec["compute"];
  if (compute.json().is_string()) {
    d.statements.push_back({compute.string(), compute.place()});
  } else {
    for (const Value& v : compute.elements()) d.statements.push_back({v.string(), v.place()});
  }
  if (spec.has("outputs")) {
    for (const Value& v : spec["outputs"].elements()) d.outputs.push_back(output_of(v));
    if (d.outputs.empty()) spec["outputs"].fail("there is no output; name at least one tensor");
  }
  return d;
}

/// The name of an entry, "" where it has none or is not an object.
std::string name_of(const Json& entry) {
  if (!entry.is_object()) return {};
  if (const auto it = entry.find("name"); it != entry.end()) return it->is_string() ? it->get<std::string>() : std::string();
  return {};
}

TensorProgram build(const Value& spec) {
  if (!spec.json().is_object()) spec.fail("expected an object with \"op\" or \"compute\", found " + std::string(spec.json().type_name()));
  std::string name = spec.has("name")                                  ? spec["name"].string()
                     : spec.has("op") && spec["op"].json().is_string() ? spec["op"].string()
                                                                       : "kernel";
  if (name.empty() || name.size() > 200 ||
      std::any_of(name.begin(), name.end(), [](char c) { return c == '/' || (c >= 0 && c < 0x20) || c == 0x7f; }))
    spec["name"].fail("a name has 1 to 200 characters, none of them '/' or a control character");
  if (spec.has("op") && spec.has("compute")) spec.fail("a spec has \"op\" (a preset) or \"compute\" (a tensor expression), not both");
  if (spec.has("op")) return assemble(preset_draft(spec, name, math_of(spec)));
  if (spec.has("compute")) return assemble(expression_draft(spec, name));
  spec.only_keys(
      {"name", "op", "dtype", "params", "epilogue", "math", "dims", "inputs", "compute", "outputs", "family", "notes", "version"},
      "a spec");
  spec.fail("a spec has \"op\" (a preset) or \"compute\" (a tensor expression); this one has neither");
}

}  // namespace

DraftDim draft_dim(const std::string& name, const Value& spec) {
  if (!spec.json().is_object()) return {name, spec.size_text(), spec.place()};
  spec.only_keys({"min", "max", "multiple_of"}, "a range");
  Dim range{name, 1, 1, 1};
  if (!spec.has("max")) spec.fail("a range needs \"max\"");
  range.max = spec["max"].whole();
  if (spec.has("min")) range.min = spec["min"].whole();
  if (spec.has("multiple_of")) range.multiple_of = spec["multiple_of"].whole();
  return {name, range, spec.place()};
}

std::vector<SpecEntry> parse_specs(std::string_view json_text, std::string_view origin) {
  const auto document = std::make_shared<const Json>(parse_json(json_text, std::string(origin)));
  const Value root(*document, std::string(origin));
  std::vector<Value> specs;
  if (document->is_array()) {
    specs = root.elements();
  } else if (root.has("workloads")) {
    root.only_keys({"workloads", "notes", "version", "family", "name"}, "a list of workloads");
    specs = root["workloads"].elements();
  } else {
    specs.push_back(root);
  }
  if (specs.empty()) root.fail("the list of specs is empty");
  std::vector<SpecEntry> entries;
  for (const Value& spec : specs) entries.push_back({name_of(spec.json()), [document, spec] { return build(spec); }});
  return entries;
}

TensorProgram parse_program(std::string_view json_text, std::string_view origin) {
  const std::vector<SpecEntry> entries = parse_specs(json_text, origin);
  if (entries.size() != 1)
    throw Error(ErrorCode::invalid_spec, "expected one spec, found " + std::to_string(entries.size()) + "; choose one by its name",
                std::string(origin));
  return entries[0].build();
}

TensorProgram parse_short(std::string_view statements, const std::map<std::string, int64_t>& extents, std::string_view origin) {
  Draft d;
  d.place = origin;
  d.name = "expression";
  d.infer_inputs = true;
  for (const auto& [name, extent] : extents) {
    const std::string place = d.place + ": extent of '" + name + "'";
    if (extent < 1) throw Error(ErrorCode::invalid_spec, "it is " + std::to_string(extent) + "; extents are 1 to 2147483648", place);
    d.dims.push_back({name, SizeText{extent, place}, place});
  }
  for (size_t at = 0; at <= statements.size();) {
    const size_t end = std::min(statements.find(';', at), statements.size());
    // Blanks in place of what precedes, so that columns are those of the whole text.
    std::string text = std::string(at, ' ') + std::string(statements.substr(at, end - at));
    if (text.find_first_not_of(" \t\r\n") != std::string::npos) d.statements.push_back({std::move(text), d.place});
    at = end + 1;
  }
  return assemble(d);
}

}  // namespace rgen::ir
