#include "ir/lexer.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "ir/syntax.h"

namespace rgen::ir::syntax {

namespace {

constexpr size_t max_length = size_t{1} << 16;

// Not <cctype>: the C locale functions depend on the process's locale.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

size_t symbol_length(std::string_view rest) {
  for (std::string_view two : {"<=", ">=", "==", "!="})
    if (rest.substr(0, 2) == two) return 2;
  return std::string_view("[](),:|?=+-*/%<>").find(rest[0]) != std::string_view::npos ? 1 : 0;
}

Token number_token(std::string_view rest, int column, const std::string& place) {
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  const std::string_view text = rest.substr(0, size_t(end - rest.data()));
  if (error == std::errc::result_out_of_range) fail(place, column, "the number " + std::string(text) + " is outside the range of a double");
  if (error != std::errc()) fail(place, column, "'" + std::string(rest.substr(0, 8)) + "' is not a number");
  const bool digits = std::all_of(text.begin(), text.end(), is_digit);
  return {Token::Kind::number, column, text, value, digits && value <= 9007199254740992.0};
}

}  // namespace

bool is_name(std::string_view s) {
  return !s.empty() && is_letter(s[0]) && std::all_of(s.begin(), s.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

void fail(const std::string& place, int column, const std::string& message) {
  throw Error(ErrorCode::invalid_spec, message, place + ": column " + std::to_string(column));
}

std::string describe(const Token& token) { return token.kind == Token::Kind::end ? "the end" : "'" + std::string(token.text) + "'"; }

std::vector<Token> tokenize(std::string_view text, const std::string& place) {
  if (text.size() > max_length) fail(place, int(max_length), "the statement is longer than 65536 characters");
  std::vector<Token> tokens;
  for (size_t i = 0; i < text.size();) {
    const int column = int(i) + 1;
    const std::string_view rest = text.substr(i);
    size_t length = 1;
    if (is_space(text[i])) {
      ++i;
      continue;
    }
    if (is_digit(text[i]) || (text[i] == '.' && rest.size() > 1 && is_digit(rest[1]))) {
      tokens.push_back(number_token(rest, column, place));
      length = tokens.back().text.size();
    } else if (is_letter(text[i])) {
      while (length < rest.size() && (is_letter(rest[length]) || is_digit(rest[length]))) ++length;
      tokens.push_back({Token::Kind::name, column, rest.substr(0, length)});
    } else if ((length = symbol_length(rest)) > 0) {
      tokens.push_back({Token::Kind::symbol, column, rest.substr(0, length)});
    } else {
      const unsigned char c = static_cast<unsigned char>(text[i]);
      fail(place, column,
           c >= 0x20 && c < 0x7f ? "unexpected character '" + std::string(1, text[i]) + "'" : "unexpected character outside ASCII");
    }
    i += length;
  }
  tokens.push_back({Token::Kind::end, int(text.size()) + 1, {}});
  return tokens;
}

}  // namespace rgen::ir::syntax
