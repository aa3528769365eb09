// What tests of messages and of the environment share.
#pragma once
#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "base/error.h"

namespace rgen::test {

/// The error that `f` throws.
template <class F>
Error error_of(const F& f) {
  try {
    f();
  } catch (const Error& e) { return e; }
  return Error(ErrorCode::internal, "nothing was thrown");
}

/// The message of the error of this code that `f` throws.
template <class F>
std::string error_of(ErrorCode code, const F& f) {
  const Error e = error_of(f);
  CHECK(e.code() == code);
  return e.what();
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
inline bool contains(const Error& e, const std::string& part) { return contains(std::string(e.what()), part); }

/// A variable of the environment has this value for as long as it lives, and then what it was before.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value, 1);
  }
  ~Variable() {
    if (old_)
      setenv(name_, old_->c_str(), 1);
    else
      unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace rgen::test
