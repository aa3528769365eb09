// The JSON side of profiles: syntax, schema, identity. Internal to hwmodel: profile.h is the interface.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace rgen::hw {

/// Parses JSON. Throws Error{invalid_profile} with line and column for a syntax error, a repeated key or nesting deeper than 16.
nlohmann::json parse_document(std::string_view text, std::string_view origin);

/// Checks against hwprofiles/schema.json. Throws Error{invalid_profile} with the JSON path and the nearest key or value that would do.
void check_schema(const nlohmann::json& document, std::string_view origin);

/// Sorted keys, no white space: equal for documents that differ only in layout and order of keys.
std::string canonical_text(const nlohmann::json& document);
/// 64-bit content hash as 16 hex digits.
std::string content_hash(std::string_view text);

/// The ISA feature without which a machine lacks the atom; "" if the basic vector instructions suffice.
std::string atom_feature(std::string_view atom);

[[noreturn]] void fail_at(std::string_view origin, std::string_view json_path, const std::string& message);

}  // namespace rgen::hw
