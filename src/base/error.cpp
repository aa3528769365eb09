#include "base/error.h"

#include <algorithm>
#include <numeric>

namespace rgen {

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
      return 2;
    case ErrorCode::invalid_spec:
    case ErrorCode::invalid_profile:
      return 3;
    case ErrorCode::unsupported:
      return 4;
    case ErrorCode::does_not_fit:
      return 5;
    case ErrorCode::verification:
      return 6;
    case ErrorCode::toolchain:
    case ErrorCode::device:
      return 7;
    case ErrorCode::internal:
      return 70;
  }
  return 70;
}

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
      return "usage";
    case ErrorCode::invalid_spec:
      return "invalid_spec";
    case ErrorCode::invalid_profile:
      return "invalid_profile";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::does_not_fit:
      return "does_not_fit";
    case ErrorCode::verification:
      return "verification";
    case ErrorCode::toolchain:
      return "toolchain";
    case ErrorCode::device:
      return "device";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

Error::Error(ErrorCode code, std::string message, std::string context)
    : std::runtime_error(context.empty() ? message : context + ": " + message),
      code_(code),
      message_(std::move(message)),
      context_(std::move(context)) {}

static size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t up = row[j];
      row[j] = std::min({up + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = up;
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = 2 + word.size() / 3;
  if (word.size() > 256) return best;
  for (const std::string& c : candidates)
    if (const size_t d = edit_distance(word, c); d < best_distance) best = c, best_distance = d;
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string n = nearest(word, candidates);
  return n.empty() ? "" : " (did you mean '" + n + "'?)";
}

}  // namespace rgen
