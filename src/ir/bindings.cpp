// What the documents of ops/ may say: parameters, let, when, $name and ...name.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "ir/presets.h"
#include "ir/syntax.h"

namespace rgen::ir {

namespace {

[[noreturn]] void broken(const std::string& message) { throw Error(ErrorCode::internal, "ops: " + message); }

std::string shortest(double v) {
  char buffer[40];
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, v);
  return {buffer, r.ptr};
}

std::vector<std::string> names_of(const Json& as) {
  if (as.is_string()) return {as.get<std::string>()};
  return as.get<std::vector<std::string>>();
}

bool is_spread(const std::string& name) { return name.compare(0, 3, "...") == 0; }

void check_number(const Value& v, int64_t least) {
  if (v.json().is_object()) return;  // a range is checked with the dimensions
  const int64_t n = v.whole();
  if (n < least || n > max_extent) v.fail("it is " + std::to_string(n) + "; it must be " + std::to_string(least) + " to 2147483648");
}

/// The elements of a number (repeated) or of a list of one of the lengths allowed.
std::vector<Value> spread(const Value& v, std::initializer_list<size_t> lengths) {
  if (!v.json().is_array()) return std::vector<Value>(*lengths.begin(), v);
  const std::vector<Value> list = v.elements();
  if (std::find(lengths.begin(), lengths.end(), list.size()) == lengths.end())
    v.fail("expected a number or a list of " + std::to_string(*lengths.begin()) +
           (lengths.size() > 1 ? " or " + std::to_string(*(lengths.begin() + 1)) : "") + " numbers, found " + std::to_string(list.size()));
  return list;
}

std::string trim(std::string s) {
  s.erase(0, s.find_first_not_of(' '));
  s.erase(s.find_last_not_of(' ') + 1);
  return s;
}

}  // namespace

void Bindings::dimension(DraftDim dim) {
  Size size;
  if (std::holds_alternative<Dim>(dim.value)) {
    size = Size::dim(ranges_++);
  } else {
    const SizeText& text = std::get<SizeText>(dim.value);
    if (const auto* number = std::get_if<int64_t>(&text.value))
      size = *number;
    else
      size = resolve_size(*syntax::parse_expression(std::get<std::string>(text.value), text.place), sizes_, text.place);
  }
  sizes_[dim.name] = size;
  dims_.push_back(std::move(dim));
}

void Bindings::bind_extents(const std::vector<std::string>& names, const Value& value) {
  const std::vector<Value> extents = value.json().is_array() ? value.elements() : std::vector<Value>{value};
  const bool has_rest = is_spread(names[0]);
  const size_t named = names.size() - (has_rest ? 1 : 0);
  if (extents.empty() || extents.size() < named || (!has_rest && extents.size() != named)) value.fail("it needs at least one extent");
  AxisList rest;
  for (size_t i = 0; i < extents.size(); ++i) {
    const std::string dim = "D" + std::to_string(i);
    check_number(extents[i], 1);
    dimension(draft_dim(dim, extents[i]));
    if (i < extents.size() - named)
      rest.axes.emplace_back("d" + std::to_string(i), dim);
    else
      dimension({names[i - (extents.size() - named) + (has_rest ? 1 : 0)], SizeText{dim, value.place()}, value.place()});
  }
  if (has_rest) lists_[names[0].substr(3)] = rest;
}

void Bindings::parameter(const std::string& name, const Json& description, const std::optional<Value>& given, const Value& spec) {
  const std::string type = description.at("type");
  const Json as = description.value("as", Json());
  if (!given && description.value("required", false))
    spec.fail("\"params\" lacks '" + name + "' (" + description.at("meaning").get<std::string>() + ")");
  if (given) present_.insert(name);
  const std::vector<std::string> names = as.is_null() ? std::vector<std::string>() : names_of(as);
  const std::string place = given ? given->place() : spec.place();

  if (!given && !description.contains("default")) {  // absent altogether
    if (type == "extent" && is_spread(names[0])) lists_[names[0].substr(3)] = {};
    return;
  }
  const Value value = given ? *given : Value(description.at("default"), spec.place(), "/params/" + name);
  const bool expression = !given && value.json().is_string();  // only defaults may be expressions
  if (type == "extent") {
    if (expression) return dimension({names[0], SizeText{value.string(), place}, place});
    check_number(value, 1);
    const bool list = is_spread(names[0]);
    const std::string dim = list ? "D_" + names[0].substr(3) : names[0];
    dimension(draft_dim(dim, value));
    if (list) lists_[names[0].substr(3)] = {{{names[0].substr(3), dim}}};
  } else if (type == "extents") {
    bind_extents(names, value);
  } else if (type == "pair" || type == "pads") {
    const int64_t least = type == "pair" ? 1 : 0;
    std::vector<Value> list = type == "pair" ? spread(value, {2}) : spread(value, {2, 4});
    if (list.size() == 2 && names.size() == 4) list = {list[0], list[1], list[0], list[1]};
    for (size_t i = 0; i < names.size(); ++i) {
      if (given) check_number(list[i], least);
      if (given && list[i].json().is_object()) list[i].fail("expected a number");
      dimension({names[i], list[i].size_text(), place});
    }
  } else if (type == "number") {
    texts_[name] = "(" + (expression ? value.string() : shortest(value.number())) + ")";
  } else if (type == "flag") {
    if (!value.boolean()) present_.erase(name);
  } else if (type == "choice") {
    const auto allowed = description.at("values").get<std::vector<std::string>>();
    words_[name] = value.string();
    if (std::find(allowed.begin(), allowed.end(), words_[name]) == allowed.end()) {
      std::string known;
      for (const std::string& a : allowed) known += (known.empty() ? "" : ", ") + a;
      value.fail("unknown " + name + " '" + words_[name].substr(0, 80) + "'" + did_you_mean(words_[name], allowed) + "; known are " +
                 known);
    }
  } else if (type == "axes") {
    given_.emplace(name, value);
  } else {
    broken("unknown parameter type " + type);
  }
}

const Bindings::AxisList& Bindings::list(const std::string& name) const {
  const auto it = lists_.find(name);
  if (it == lists_.end()) broken("unknown list ..." + name);
  return it->second;
}

/// permute(list, positions) · pick(list, positions) · except(list, positions)
Bindings::AxisList Bindings::list_function(const std::string& call, const Value& spec) const {
  const size_t open = call.find('('), comma = call.find(','), close = call.find(')');
  if (open == std::string::npos || comma == std::string::npos || close == std::string::npos) broken("'" + call + "' is no list function");
  const std::string function = call.substr(0, open), parameter = trim(call.substr(comma + 1, close - comma - 1));
  const AxisList& all = list(trim(call.substr(open + 1, comma - open - 1)));
  const auto it = given_.find(parameter);
  if (it == given_.end()) spec.fail("\"params\" lacks '" + parameter + "'");
  const Value& positions = it->second;
  const int64_t rank = int64_t(all.axes.size());
  std::vector<size_t> order;
  for (const Value& v : positions.json().is_array() ? positions.elements() : std::vector<Value>{positions}) {
    const int64_t p = v.whole();
    if (p < -rank || p >= rank) v.fail("dimension " + std::to_string(p) + " does not exist; there are " + std::to_string(rank));
    order.push_back(size_t(p < 0 ? p + rank : p));
    if (std::count(order.begin(), order.end(), order.back()) > 1) v.fail("dimension " + std::to_string(p) + " is named twice");
  }
  if (function == "permute" && order.size() != all.axes.size())
    positions.fail("a permutation names each of the " + std::to_string(rank) + " dimensions once");
  if (order.empty()) positions.fail("it names no dimension");
  AxisList r;
  if (function == "except") {
    for (size_t i = 0; i < all.axes.size(); ++i)
      if (!std::count(order.begin(), order.end(), i)) r.axes.push_back(all.axes[i]);
  } else if (function == "permute" || function == "pick") {
    for (size_t i : order) r.axes.push_back(all.axes[i]);
  } else {
    broken("unknown list function " + function);
  }
  return r;
}

void Bindings::let(const Json& entry, const Value& spec) {
  if (entry.contains("when") && !holds(entry.at("when"))) return;
  if (entry.contains("error")) spec.fail(entry.at("error"));
  const std::string is = entry.at("is");
  if (entry.contains("text")) {
    texts_.try_emplace(entry.at("text"), text(is));
  } else if (entry.contains("axes")) {
    lists_.try_emplace(entry.at("axes"), list_function(is, spec));
  } else {
    const std::string name = entry.at("size");
    if (sizes_.count(name)) return;
    std::string value = is;
    if (is.compare(0, 8, "product(") == 0) {
      value = "1";
      for (const auto& [axis, extent] : list(is.substr(8, is.size() - 9)).axes) value += "*" + extent;
    }
    dimension({name, SizeText{value, spec.place()}, spec.place()});
    if (sizes_[name].is_const() && sizes_[name].value() < 1)
      spec.fail("the extent " + name + " = " + value + " is " + std::to_string(sizes_[name].value()) + "; extents are at least 1");
  }
}

bool Bindings::compare(const syntax::Node& node) const {
  if (node.kind == syntax::Node::Kind::name) return present_.count(node.text) > 0;
  if (node.kind != syntax::Node::Kind::binary) broken("a condition is a name or a comparison");
  const syntax::Node &a = *node.args[0], &b = *node.args[1];
  if (const auto it = words_.find(a.text); a.kind == syntax::Node::Kind::name && it != words_.end())
    return (it->second == b.text) == (node.text == "==");
  const Size x = resolve_size(a, sizes_, "ops"), y = resolve_size(b, sizes_, "ops");
  if (node.text == "==") return x == y;
  if (node.text == "!=") return !(x == y) && (x.is_const() || !y.is_const() || y.value() != 0);
  broken("conditions compare by == and != only");
}

bool Bindings::holds(const std::string& condition) const {
  for (size_t at = 0; at <= condition.size();) {
    const size_t end = std::min(condition.find("&&", at), condition.size());
    std::string part = trim(condition.substr(at, end - at));
    const bool negated = part.compare(0, 1, "!") == 0;
    if (negated) part = part.substr(1);
    if (compare(*syntax::parse_expression(part, "ops")) == negated) return false;
    at = end + 2;
  }
  return true;
}

std::string Bindings::text(const std::string& raw) const {
  std::string out;
  for (size_t i = 0; i < raw.size();) {
    const bool variable = raw[i] == '$', spread_list = raw.compare(i, 3, "...") == 0;
    if (!variable && !spread_list) {
      out += raw[i++];
      continue;
    }
    const size_t start = i + (variable ? 1 : 3);
    i = start;
    while (i < raw.size() && syntax::is_name(raw.substr(start, i + 1 - start))) ++i;
    const std::string name = raw.substr(start, i - start);
    if (variable) {
      const auto it = texts_.find(name);
      if (it == texts_.end()) broken("unknown text $" + name);
      out += it->second;
      continue;
    }
    const bool declare = i < raw.size() && raw[i] == ':';
    if (declare) ++i;
    const AxisList& axes = list(name);
    for (size_t k = 0; k < axes.axes.size(); ++k) out += (k ? ", " : "") + axes.axes[k].first + (declare ? ":" + axes.axes[k].second : "");
    if (!axes.axes.empty()) continue;
    const size_t next = raw.find_first_not_of(' ', i);  // an empty list takes its comma along
    if (next != std::string::npos && raw[next] == ',') {
      i = raw.find_first_not_of(' ', next + 1);
    } else if (const size_t last = out.find_last_not_of(' '); last != std::string::npos && out[last] == ',') {
      out.erase(last);
    }
  }
  return out;
}

std::vector<SizeText> Bindings::shape(const Json& raw, const std::string& place) const {
  std::vector<SizeText> r;
  for (const Json& e : raw) {
    if (e.is_number()) {
      r.push_back({e.get<int64_t>(), place});
    } else if (const std::string s = e; is_spread(s)) {
      for (const auto& axis : list(s.substr(3)).axes) r.push_back({axis.second, place});
    } else {
      r.push_back({s, place});
    }
  }
  return r;
}

}  // namespace rgen::ir
