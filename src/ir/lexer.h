// Tokens of the index notation.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace rgen::ir::syntax {

struct Token {
  enum class Kind : uint8_t { number, name, symbol, end };
  Kind kind;
  int column;             ///< 1-based
  std::string_view text;  ///< of the text given; it must outlive the token
  double number = 0;
  bool whole = false;  ///< written as an integer of at most 2^53
};

/// Ends with a token of kind `end`. Throws Error{invalid_spec}.
std::vector<Token> tokenize(std::string_view text, const std::string& place);
/// "'+'", "the end": for messages.
std::string describe(const Token& token);

}  // namespace rgen::ir::syntax
