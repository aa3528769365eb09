#include "ir/document.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"

namespace rgen::ir {

namespace {

constexpr size_t max_nesting = 64;

/// Builds the document; stops at the first fault, so a hostile one costs no more than what precedes the fault.
class Handler : public nlohmann::json_sax<Json> {
 public:
  Json root;
  std::string fault;

  bool null() override { return add(nullptr); }
  bool boolean(bool v) override { return add(v); }
  bool number_integer(number_integer_t v) override { return add(v); }
  bool number_unsigned(number_unsigned_t v) override { return add(v); }
  bool number_float(number_float_t v, const string_t&) override { return add(v); }
  bool string(string_t& v) override { return add(std::move(v)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& k) override {
    if (!keys_.back().insert(k).second) {
      fault = "the key '" + k.substr(0, 80) + "' stands twice in one object";
      return false;
    }
    key_ = std::move(k);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    position_ = position;
    fault = e.what();
    if (const size_t colon = fault.rfind("syntax error"); colon != std::string::npos) fault = fault.substr(colon);
    if (fault.size() > 300) fault = fault.substr(0, 300) + "…";
    return false;
  }
  size_t position() const { return position_; }

 private:
  Json* place(Json&& v) {
    if (open_.empty()) {
      root = std::move(v);
      return &root;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    return &parent.get_ref<Json::object_t&>().emplace_back(key_, std::move(v)).second;
  }
  bool add(Json&& v) { return place(std::move(v)), true; }
  bool open(Json&& v) {
    if (open_.size() == max_nesting) {
      fault = "brackets are nested deeper than " + std::to_string(max_nesting);
      return false;
    }
    open_.push_back(place(std::move(v)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  std::vector<Json*> open_;
  std::vector<std::set<std::string>> keys_;
  std::string key_;
  size_t position_ = 0;
};

/// Tells how far the parser came when the handler itself found the fault.
struct Reader {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  const char* at;
  const char** last;
  reference operator*() const { return *at; }
  Reader& operator++() {
    *last = ++at;
    return *this;
  }
  Reader operator++(int) {
    Reader r = *this;
    ++*this;
    return r;
  }
  bool operator==(const Reader& o) const { return at == o.at; }
  bool operator!=(const Reader& o) const { return at != o.at; }
};

std::string line_and_column(std::string_view text, size_t position) {
  const std::string_view before = text.substr(0, std::min(position > 0 ? position - 1 : 0, text.size()));
  const size_t line = 1 + size_t(std::count(before.begin(), before.end(), '\n')), start = before.rfind('\n');
  const size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

std::string escaped(std::string key) {
  if (key.size() > 80) key = key.substr(0, 80) + "…";
  std::string r;
  for (char c : key) r += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return r;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& origin) {
  Handler handler;
  const char* last = text.data();
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  const bool ok = Json::sax_parse(Reader{text.data(), &last}, Reader{text.data() + text.size(), &last}, &handler);
  if (!ok) {
    const size_t position = handler.position() ? handler.position() : size_t(last - text.data());
    throw Error(ErrorCode::invalid_spec, handler.fault, origin + ": " + line_and_column(text, position));
  }
  return std::move(handler.root);
}

void Value::fail(const std::string& message) const { throw Error(ErrorCode::invalid_spec, message, place()); }

Value Value::operator[](const std::string& key) const { return {json_->at(key), origin_, path_ + "/" + escaped(key)}; }
Value Value::operator[](size_t i) const { return {json_->at(i), origin_, path_ + "/" + std::to_string(i)}; }

std::vector<std::pair<std::string, Value>> Value::members() const {
  if (!json_->is_object()) fail("expected an object, found " + std::string(json_->type_name()));
  std::vector<std::pair<std::string, Value>> r;
  for (const auto& [key, v] : json_->items()) r.emplace_back(key, Value(v, origin_, path_ + "/" + escaped(key)));
  return r;
}

std::vector<Value> Value::elements() const {
  if (!json_->is_array()) fail("expected an array, found " + std::string(json_->type_name()));
  std::vector<Value> r;
  for (size_t i = 0; i < json_->size(); ++i) r.push_back((*this)[i]);
  return r;
}

void Value::only_keys(const std::vector<std::string>& known, const std::string& what) const {
  for (const auto& [key, v] : members())
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      std::string message = "unknown key '" + key.substr(0, 80) + "' of " + what + did_you_mean(key, known);
      if (did_you_mean(key, known).empty()) {
        message += "; known are";
        for (const std::string& k : known) message += (&k == &known[0] ? " " : ", ") + k;
      }
      v.fail(message);
    }
}

std::string Value::string() const {
  if (!json_->is_string()) fail("expected a string, found " + std::string(json_->type_name()));
  return json_->get<std::string>();
}

bool Value::boolean() const {
  if (!json_->is_boolean()) fail("expected true or false, found " + std::string(json_->type_name()));
  return json_->get<bool>();
}

int64_t Value::whole() const {
  if (!json_->is_number()) fail("expected a whole number, found " + std::string(json_->type_name()));
  const double v = json_->get<double>();
  if (v != std::floor(v) || std::abs(v) > 9007199254740992.0) fail("expected a whole number of at most 2^53, found " + json_->dump());
  return json_->is_number_float() ? int64_t(v) : json_->get<int64_t>();
}

double Value::number() const {
  if (!json_->is_number()) fail("expected a number, found " + std::string(json_->type_name()));
  return json_->get<double>();
}

double Value::number_or_infinity() const {
  if (*json_ == "inf") return std::numeric_limits<double>::infinity();
  if (*json_ == "-inf") return -std::numeric_limits<double>::infinity();
  if (!json_->is_number()) fail("expected a number, \"inf\" or \"-inf\"");
  return json_->get<double>();
}

DType Value::dtype() const {
  const std::string name = string();
  if (const auto t = parse_dtype(name)) return *t;
  fail("unknown dtype '" + name.substr(0, 80) + "'" + did_you_mean(name, {"f32", "f16", "bf16", "s8", "u8", "s32"}) +
       "; known are f32, f16, bf16, s8, u8, s32");
}

SizeText Value::size_text() const {
  if (json_->is_string()) return {string(), place()};
  return {whole(), place()};
}

}  // namespace rgen::ir
