// Element i of input t is a function of (seed, t, i) alone, made of integer operations, one exact subtraction and one multiplication:
// nothing in it differs between machines or C libraries.
#include <cmath>
#include <limits>

#include "base/element.h"
#include "run/kernel.h"
#include "run/layout.h"

namespace rgen::run {

namespace {

/// splitmix64's output function (Steele, Lea and Flood, OOPSLA 2014).
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Nearly normal with mean 0 and variance 1: the sum of four 16-bit uniforms (Irwin-Hall), at most 3.46 in magnitude.
double normal(uint64_t bits) {
  const int64_t sum = int64_t(bits & 0xffff) + int64_t((bits >> 16) & 0xffff) + int64_t((bits >> 32) & 0xffff) + int64_t(bits >> 48);
  constexpr double scale = 0x1.bb67ae8584caap-16;  // sqrt(3) · 2^-16 = 1 / sqrt(4 · 2^32 / 12)
  return double(sum - 2 * 65535) * scale;
}

double draw(uint64_t bits, DType t, double scale) {
  switch (t) {
    case DType::s8:
      return double(int64_t(bits >> 32) % 255 - 127);
    case DType::u8:
      return double(bits >> 56);
    case DType::s32:
      return double(int64_t(bits >> 32) % 2001 - 1000);
    default:
      return normal(bits) * scale;
  }
}

/// K of the first sum that reads the tensor, else 1: keeps the sums of a chain of layers near 1.
int64_t summed_products(const ir::TensorProgram& program, int tensor, const std::vector<int64_t>& dim_values) {
  for (const ir::Stage& stage : program.stages) {
    if (stage.reduce != ir::ReduceOp::sum) continue;
    bool reads = false;
    ir::for_each_access(*stage.body, [&](const ir::Access& a) { reads |= a.tensor == tensor; });
    if (!reads) continue;
    int64_t k = 1;
    for (size_t a = size_t(stage.n_out); a < stage.axes.size(); ++a) k *= stage.axes[a].extent.eval(dim_values);
    return k;
  }
  return 1;
}

/// Read inside the argument of a root or a logarithm, as a variance is: drawn without its sign.
bool needs_positive(const ir::TensorProgram& program, int tensor) {
  bool found = false;
  for (const ir::Stage& stage : program.stages)
    ir::transform(stage.body, [&](const ir::ExprPtr& e) -> ir::ExprPtr {
      const auto* f = std::get_if<ir::Unary>(&e->node);
      if (f && (f->op == ir::UnaryOp::sqrt || f->op == ir::UnaryOp::rsqrt || f->op == ir::UnaryOp::log))
        ir::for_each_access(*f->x, [&](const ir::Access& a) { found |= a.tensor == tensor; });
      return nullptr;
    });
  return found;
}

Buffer allocate(const ir::Tensor& t, const std::vector<int64_t>& dim_values) {
  return Buffer(size_t(Layout(t, dim_values).span()) * size_t(size_of(t.dtype)));
}

}  // namespace

std::vector<Buffer> make_inputs(const ir::TensorProgram& program, uint64_t seed, const std::vector<int64_t>& dim_values) {
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ir::Tensor& tensor = program[program.inputs[i]];
    const Layout layout(tensor, dim_values);
    Buffer buffer = allocate(tensor, dim_values);
    // What lies between the rows is nobody's: a kernel that reads it shows a NaN.
    if (is_float(tensor.dtype) && layout.span() > layout.elements())
      for (int64_t e = 0; e < layout.span(); ++e) store_element(buffer.data(), e, tensor.dtype, std::numeric_limits<double>::quiet_NaN());
    const double scale = tensor.constant ? 1 / std::sqrt(double(summed_products(program, program.inputs[i], dim_values))) : 1.0;
    const bool positive = needs_positive(program, program.inputs[i]);
    const uint64_t stream = mix(mix(seed + 0x9e3779b97f4a7c15) + i);
    for (int64_t e = 0; e < layout.elements(); ++e) {
      const double x = draw(mix(stream + uint64_t(e + 1) * 0x9e3779b97f4a7c15), tensor.dtype, scale);
      store_element(buffer.data(), layout.offset(e), tensor.dtype, positive ? std::abs(x) : x);
    }
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

std::vector<Buffer> make_outputs(const ir::TensorProgram& program, const std::vector<int64_t>& dim_values) {
  std::vector<Buffer> buffers;
  for (int o : program.outputs) buffers.push_back(allocate(program[o], dim_values));
  return buffers;
}

}  // namespace rgen::run
