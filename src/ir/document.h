// JSON text → nlohmann documents whose objects keep their order. Included by .cpp files only.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ir/draft.h"

namespace rgen::ir {

using Json = nlohmann::ordered_json;

/// Throws Error{invalid_spec} with line and column for what is not JSON, nests deeper than 64, or names a key twice.
Json parse_json(std::string_view text, const std::string& origin);

/// A value and where it stands ("spec.json: /compute/0"); the accessors throw Error{invalid_spec} there.
class Value {
 public:
  Value(const Json& json, std::string origin, std::string path = {}) : json_(&json), origin_(std::move(origin)), path_(std::move(path)) {}

  const Json& json() const { return *json_; }
  std::string place() const { return path_.empty() ? origin_ : origin_ + ": " + path_; }
  [[noreturn]] void fail(const std::string& message) const;

  bool has(const char* key) const { return json_->is_object() && json_->contains(key); }
  Value operator[](const std::string& key) const;  ///< precondition: has(key)
  Value operator[](size_t i) const;
  size_t size() const { return json_->size(); }
  std::vector<std::pair<std::string, Value>> members() const;  ///< of an object
  std::vector<Value> elements() const;                         ///< of an array
  /// Every key is one of `known`; `what` names the object: "a preset".
  void only_keys(const std::vector<std::string>& known, const std::string& what) const;

  std::string string() const;
  bool boolean() const;
  int64_t whole() const;
  double number() const;
  double number_or_infinity() const;  ///< also "inf" and "-inf"
  DType dtype() const;
  SizeText size_text() const;  ///< a whole number or an expression

 private:
  const Json* json_;
  std::string origin_, path_;
};

}  // namespace rgen::ir
