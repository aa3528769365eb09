// Two readings of schema.json: our own walk for the faults people make (a misspelt key, a missing figure, a wrong unit), which names the
// nearest right word; then valijson for the whole of the schema. Both follow the one document, so a new field is a change of data.
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "base/embedded.h"
#include "base/error.h"
#include "hwmodel/profile_document.h"

namespace rgen::hw {
using nlohmann::json;

namespace {

std::string_view schema_text() {
  for (const EmbeddedFile& file : embedded_profiles())
    if (file.name == "schema") return file.text;
  throw Error(ErrorCode::internal, "the profile schema is not compiled in");
}

class Walk {
 public:
  Walk(const json& root, std::string_view origin) : root_(root), origin_(origin) {}

  void check(const json& node, const json& schema, const std::string& path) const {
    const json& rule = resolve(schema);
    if (rule.contains("enum")) check_enum(node, rule["enum"], path);
    if (node.is_object() && rule.contains("properties")) check_object(node, rule, path);
    if (node.is_array() && rule.contains("items"))
      for (size_t i = 0; i < node.size(); ++i) check(node[i], rule["items"], path + "/" + std::to_string(i));
  }

 private:
  const json& resolve(const json& schema) const {
    if (!schema.contains("$ref")) return schema;
    return root_.at(json::json_pointer(schema["$ref"].get<std::string>().substr(1)));
  }

  void check_object(const json& node, const json& rule, const std::string& path) const {
    const json& properties = rule["properties"];
    std::vector<std::string> known;
    for (const auto& [key, unused] : properties.items()) known.push_back(key);
    for (const auto& [key, unused] : node.items())
      if (!properties.contains(key)) fail_at(origin_, path + "/" + key, "unknown key '" + key + "'" + did_you_mean(key, known));
    for (const json& key : rule["required"])
      if (!node.contains(key.get<std::string>())) {
        const auto& name = key.get_ref<const std::string&>();
        fail_at(origin_, path + "/" + name, "missing figure '" + name + "': every figure must be stated, there are no defaults");
      }
    for (const auto& [key, value] : node.items()) check(value, properties[key], path + "/" + key);
  }

  void check_enum(const json& node, const json& allowed, const std::string& path) const {
    for (const json& one : allowed)
      if (one == node) return;
    std::vector<std::string> words;
    std::string list;
    for (const json& one : allowed) {
      words.push_back(one.is_string() ? one.get<std::string>() : one.dump());
      list += (list.empty() ? "" : ", ") + words.back();
    }
    std::string hint = node.is_string() ? did_you_mean(node.get<std::string>(), words) : "";
    fail_at(origin_, path, (node.is_structured() ? std::string("a value of another kind") : node.dump()) + " is not one of " + list + hint);
  }

  const json& root_;
  std::string_view origin_;
};

std::string json_path(const std::vector<std::string>& context) {  // {"<root>", "[levels]", "[0]"} → /levels/0
  std::string path;
  for (size_t i = 1; i < context.size(); ++i) path += "/" + context[i].substr(1, context[i].size() - 2);
  return path;
}

}  // namespace

void check_schema(const json& document, std::string_view origin) {
  const json root = json::parse(schema_text());
  if (!document.is_object()) fail_at(origin, "", "a profile is a JSON object");
  Walk(root, origin).check(document, root, "");

  valijson::Schema schema;
  valijson::SchemaParser().populateSchema(valijson::adapters::NlohmannJsonAdapter(root), schema);
  valijson::ValidationResults results;
  if (valijson::Validator().validate(schema, valijson::adapters::NlohmannJsonAdapter(document), &results)) return;
  valijson::ValidationResults::Error error, deepest;
  while (results.popError(error))
    if (error.context.size() > deepest.context.size()) deepest = error;
  const std::string path = json_path(deepest.context);
  const json::json_pointer at(path);
  const bool shown = document.contains(at) && document.at(at).is_primitive();
  fail_at(origin, path, (shown ? document.at(at).dump(-1, ' ', false, json::error_handler_t::replace) + ": " : "") + deepest.description);
}

}  // namespace rgen::hw
