#include "hwmodel/profile_document.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"

namespace rgen::hw {
using nlohmann::json;

namespace {

constexpr int max_depth = 16;  // a profile needs 6; the limit bounds what a hostile file can make us build

std::string line_and_column(std::string_view text, size_t offset) {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < offset && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
  }
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

// The library's message is "[json.exception.…] parse error at line 1, column 2: cause; last read: '…'": keep the cause.
std::string syntax_cause(std::string message) {
  for (std::string_view lead : {"column ", ": "})
    if (size_t at = message.find(lead); at != std::string::npos) message.erase(0, at + lead.size());
  return message;
}

}  // namespace

void fail_at(std::string_view origin, std::string_view json_path, const std::string& message) {
  std::string place(origin);
  if (!json_path.empty()) place += place.empty() ? std::string(json_path) : ": " + std::string(json_path);
  throw Error(ErrorCode::invalid_profile, message, place);
}

json parse_document(std::string_view text, std::string_view origin) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open, for repeated keys: the parser would keep the last silently
  auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > max_depth) fail_at(origin, "", "nested deeper than " + std::to_string(max_depth) + " levels");
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      fail_at(origin, "", "the key '" + value.get<std::string>() + "' occurs twice in one object");
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::parse_error& e) {
    fail_at(origin, line_and_column(text, e.byte > 0 ? e.byte - 1 : 0), "not JSON: " + syntax_cause(e.what()));
  } catch (const json::exception& e) { fail_at(origin, "", "not JSON: " + syntax_cause(e.what())); }
}

std::string canonical_text(const json& document) { return document.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string content_hash(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325u;  // FNV-1a, then a final mix so that all digits depend on the last bytes too
  for (unsigned char c : text) h = (h ^ c) * 0x100000001b3u;
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdu;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53u;
  h ^= h >> 33;
  std::string digits(16, '0');
  for (int i = 15; i >= 0; --i, h >>= 4) digits[size_t(i)] = "0123456789abcdef"[h & 15];
  return digits;
}

}  // namespace rgen::hw
