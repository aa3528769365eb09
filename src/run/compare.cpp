#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/element.h"
#include "base/error.h"
#include "run/kernel.h"
#include "run/layout.h"
#include "run/tolerance.h"

namespace rgen::run {

namespace {

/// Accounts for what the analysis does not follow (fused and reassociated forms, online rescaling).
constexpr double safety = 2;

/// The largest allowed |got − want| on the side where `got` lies; `roundings` and `magnitude` as in tolerance.h.
double allowed_error(double want, double got, double magnitude, double roundings, DType out) {
  // 2^-126: kernels may flush subnormals to zero.
  const double computed = roundings > 0 ? safety * roundings * (unit_roundoff(DType::f32) * magnitude + 0x1p-126) : 0;
  if (is_float(out)) {
    const FloatFormat f = format_of(out);
    const double half_smallest = std::ldexp(1.0, f.min_exponent - f.bits);
    return computed + unit_roundoff(out) * (std::abs(want) + computed) + half_smallest;
  }
  // An error before the rounding moves an integer only near a tie.
  const double rounded = round_integer(want, out), limit = round_integer(got > rounded ? want + computed : want - computed, out);
  return std::abs(limit - rounded);
}

std::string position(const std::string& name, const std::vector<int64_t>& at) {
  std::ostringstream s;
  s << name << '[';
  for (size_t d = 0; d < at.size(); ++d) s << (d ? "," : "") << at[d];
  s << ']';
  return s.str();
}

struct Worst {
  double excess = -1;  ///< error / allowed; infinite for a wrong NaN or infinity
  double got = 0, want = 0, allowed = 0;
  int64_t flat = 0;
};

/// Checks one output; raises the figures of `all`.
void compare_output(const ir::Tensor& tensor, const Layout& layout, double roundings, const std::vector<double>& wants,
                    const std::vector<double>& magnitudes, const std::vector<int64_t>& sampled, const Buffer& output, Comparison& all) {
  const int64_t n = sampled.empty() ? layout.elements() : int64_t(sampled.size());
  double largest_want = 0, largest_error = 0, largest_allowed = 0;
  Worst worst;
  for (int64_t s = 0; s < n; ++s) {
    const int64_t flat = sampled.empty() ? s : sampled[size_t(s)];
    // Floats are compared before their rounding, integers after it.
    const double exact = wants[size_t(flat)];
    const double want = is_float(tensor.dtype) ? exact : round_integer(exact, tensor.dtype);
    const double got = load_element(output.data(), layout.offset(flat), tensor.dtype);
    const double allowed = allowed_error(exact, got, magnitudes[size_t(flat)], roundings, tensor.dtype);
    double error = std::abs(got - want), excess;
    if (std::isnan(want) || std::isnan(got)) {
      error = 0;
      excess = std::isnan(want) && std::isnan(got) ? 0 : INFINITY;
    } else if (got == want || got == round_to(exact, tensor.dtype)) {
      if (!std::isfinite(error)) error = 0;  // an infinity that both have, or an overflow of the output's type
      excess = 0;
    } else {
      excess = std::isfinite(error) && allowed > 0 ? error / allowed : INFINITY;
    }
    if (std::isfinite(want)) largest_want = std::max(largest_want, std::abs(want));
    if (std::isfinite(error)) largest_error = std::max(largest_error, error);
    if (std::isfinite(allowed)) largest_allowed = std::max(largest_allowed, allowed);
    if (excess > worst.excess) worst = {excess, got, want, allowed, flat};
  }
  const double unit = largest_want > 0 ? largest_want : 1;
  all.max_rel_err = std::max(all.max_rel_err, largest_error / unit);
  all.tolerance = std::max(all.tolerance, largest_allowed / unit);
  if (worst.excess > 1 && all.ok) {
    std::ostringstream message;
    message.precision(9);
    message << position(tensor.name, layout.coordinates(worst.flat)) << ": got " << worst.got << ", expected " << worst.want << ", allowed "
            << worst.allowed;
    all.ok = false;
    all.worst = message.str();
  }
}

}  // namespace

Comparison compare(const ir::TensorProgram& program, const ir::Reference& reference, const std::vector<Buffer>& outputs,
                   const std::vector<int64_t>& dim_values) {
  const std::vector<double> rounded = roundings(program, dim_values);
  Comparison all;
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    const ir::Tensor& tensor = program[program.outputs[o]];
    const Layout layout(tensor, dim_values);
    if (outputs[o].size() < size_t(layout.span()) * size_t(size_of(tensor.dtype)))
      throw Error(ErrorCode::internal, "the output buffer is smaller than its tensor", tensor.name);
    const std::vector<int64_t> everything;
    compare_output(tensor, layout, rounded[size_t(program.outputs[o])], reference.outputs[o], reference.magnitude[o],
                   o < reference.sampled.size() ? reference.sampled[o] : everything, outputs[o], all);
  }
  return all;
}

}  // namespace rgen::run
