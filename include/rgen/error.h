// The error of rgen's C++ interface. Nothing is printed and nothing aborts: what fails throws this.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rgen {

/// What went wrong; each code has one exit status (`exit_status`).
enum class ErrorCode {
  usage,            ///< the call itself is wrong (unknown flag, missing argument)
  invalid_spec,     ///< the tensor program is malformed or inconsistent
  invalid_profile,  ///< the hardware profile is malformed, incomplete or for another machine
  unsupported,      ///< well-formed, but this version cannot do it
  does_not_fit,     ///< no tile of this program fits the profile's memory levels
  verification,     ///< a result differs from the reference by more than its tolerance
  toolchain,        ///< no compiler, or the compiler failed
  device,           ///< the device or its driver is missing or failed
  internal,         ///< a broken invariant of rgen itself
};

/// 2 usage · 3 invalid spec or profile · 4 unsupported · 5 does not fit · 6 verification · 7 toolchain, device · 70 internal.
int exit_status(ErrorCode code);
std::string_view to_string(ErrorCode code);

/// `context` names the place (file, JSON path, column); `what()` is "context: message" (or the message alone).
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string message, std::string context = {});
  ErrorCode code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  const std::string& context() const noexcept { return context_; }

 private:
  ErrorCode code_;
  std::string message_, context_;
};

/// The candidate nearest to `word` by edit distance, or "" if none is near (distance > 1 + length/3).
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace rgen
