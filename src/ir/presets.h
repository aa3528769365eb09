// Presets: an entry with "op" → a draft of the second form. The operators are data (ops/*.json); docs/spec.md describes the format.
#pragma once
#include <set>

#include "ir/document.h"
#include "ir/draft.h"
#include "ir/resolve.h"

namespace rgen::ir {

/// `spec` has "op". Throws Error{invalid_spec} at the key that is wrong.
Draft preset_draft(const Value& spec, const std::string& name, Math math);

/// A dimension of a document: a number, an expression, or a range.
DraftDim draft_dim(const std::string& name, const Value& spec);

/// An operator's document, parsed. Throws Error{invalid_spec} at `place` if there is none of that name.
Json preset_document(const std::string& op, const std::string& place);

/// What a document's expressions mean for one entry: parameters and `let` bind names; `when` and texts are evaluated under them.
class Bindings {
 public:
  struct AxisList {
    std::vector<std::pair<std::string, std::string>> axes;  ///< name and extent, as text
  };

  explicit Bindings(std::string dtype) { words_["dtype"] = std::move(dtype); }

  /// Binds a parameter by its description in the document. `given`: the entry's value, if there is one.
  void parameter(const std::string& name, const Json& description, const std::optional<Value>& given, const Value& spec);
  /// Binds a dimension to a number, an expression of earlier ones, or a range.
  void dimension(DraftDim dim);
  void let(const Json& entry, const Value& spec);

  bool holds(const std::string& condition) const;  ///< a conjunction of `name`, `!name`, `a == b`, `a % b != 0`, …
  std::string text(const std::string& raw) const;  ///< with $name and ...name replaced
  std::vector<SizeText> shape(const Json& raw, const std::string& place) const;
  const std::vector<DraftDim>& dims() const { return dims_; }
  const AxisList& list(const std::string& name) const;

 private:
  void bind_extents(const std::vector<std::string>& names, const Value& value);
  AxisList list_function(const std::string& call, const Value& spec) const;
  bool compare(const syntax::Node& node) const;

  std::vector<DraftDim> dims_;
  Sizes sizes_;
  std::set<std::string> present_;             ///< parameters given, flags that are true
  std::map<std::string, std::string> words_;  ///< choices
  std::map<std::string, std::string> texts_;  ///< $name
  std::map<std::string, AxisList> lists_;     ///< ...name
  std::map<std::string, Json> positions_;     ///< parameters of type axes
  std::map<std::string, Value> given_;
  int ranges_ = 0;
};

/// The statements that turn `result` ("out[axes] = value") into the output by way of the epilogue, and their inputs.
struct Epilogue {
  std::vector<std::string> chain;
  std::string channel;  ///< the axis along which a bias runs; "" = the last
  DType dtype;          ///< of the tensors that have the output's shape
  double scale = 1, eps = 1e-5;
};
void append_epilogue(Draft& draft, const std::string& result, const Epilogue& epilogue);
std::vector<std::string> epilogue_names();

/// mlp: appends inputs and statements of all layers but the last one's bias; returns the result "out[…] = …".
std::string append_mlp_layers(Draft& draft, const Bindings& bindings, DType dtype);

}  // namespace rgen::ir
