// Random programs: printed and read back they are the same, and the reference computes the same. The seed is in every failure.
#include <doctest/doctest.h>

#include <random>

#include "ir/builder.h"
#include "ir/ir.h"

using namespace rgen;
using namespace rgen::ir;

namespace {

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed), builder_("random_" + std::to_string(seed)) {}

  TensorProgram program() {
    const int n_inputs = 1 + below(3);
    const bool symbolic = below(4) == 0;
    const Size m = symbolic ? builder_.dim("M", 2, 2 + below(6)) : Size(2 + below(6));
    for (int i = 0; i < n_inputs; ++i) {
      std::vector<Size> shape{m};
      for (int d = below(3); d > 0; --d) shape.push_back(1 + below(6));
      const DType types[] = {DType::f32, DType::bf16, DType::s8, DType::f16, DType::s32, DType::u8};
      std::vector<Size> strides = row_major(shape);
      if (below(3) == 0) strides[0] = strides[0] * Size(2);
      tensors_.push_back(
          {builder_.input("T" + std::to_string(i), shape, types[below(6)], {.constant = below(2) == 0, .strides = strides}), shape});
    }
    const int n_stages = 1 + below(3);
    std::vector<TensorRef> outputs;
    for (int s = 0; s < n_stages; ++s) {
      axes_.clear();
      std::vector<Size> shape;
      const int n_out = below(3) + (s == 0);
      for (int a = 0; a < n_out; ++a) {
        shape.push_back(a == 0 ? m : Size(1 + below(5)));
        axes_.push_back(builder_.axis("s" + std::to_string(s) + "a" + std::to_string(a), shape.back()));
      }
      const std::vector<Ax> out(axes_);
      std::vector<Ax> reduced;
      for (int r = below(3); r > 0; --r) {
        reduced.push_back(builder_.axis("s" + std::to_string(s) + "r" + std::to_string(r), 1 + below(4)));
        axes_.push_back(reduced.back());
      }
      Ex body = expression(3);
      for (const Ax& r : reduced) body = body * (r + 1);                                                     // every reduced axis is used,
      for (size_t t = s == 0 ? 0 : tensors_.size() - 1; t < tensors_.size(); ++t) body = body + read_of(t);  // and every tensor
      const std::string name = "S" + std::to_string(s);
      const ReduceOp ops[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min};
      const TensorRef ref = reduced.empty() ? builder_.stage(name, out, below(4) == 0 ? cast(DType::bf16, body) : body)
                                            : builder_.stage(name, out, Reduction{ops[below(4)], reduced, body});
      tensors_.push_back({ref, shape});
      if (s + 1 == n_stages || below(3) == 0) outputs.push_back(ref);
    }
    return builder_.build(outputs);
  }

 private:
  struct Known {
    TensorRef ref;
    std::vector<Size> shape;
  };

  int below(int n) { return int(random_() % uint32_t(n)); }
  double constant_value() {
    const double values[] = {0, 1, -1, 2.5, -0.125, 1e-7, 3e20, 7, 0.1};
    return values[below(9)];
  }

  Ax index() {
    Ax i{Index::number(below(5) - 2)};
    for (const Ax& a : axes_)
      if (below(2)) i = i + a * (below(7) - 3);
    switch (below(4)) {
      case 0:
        return i / (1 + below(4));
      case 1:
        return i % (1 + below(5)) + below(2);
      case 2:
        return (i / 2) * 3 - i % 4;
      default:
        return i;
    }
  }

  Ex read_of(size_t t) {
    std::vector<Ax> indices;
    for (size_t d = 0; d < tensors_[t].shape.size(); ++d) indices.push_back(index());
    return tensors_[t].ref.padded(below(2) ? 0 : -2, indices);
  }

  Ex expression(int depth) {
    if (depth == 0 || below(6) == 0) switch (below(3)) {
        case 0:
          return constant_value();
        case 1:
          return index();
        default:
          return read_of(size_t(below(int(tensors_.size()))));
      }
    const UnaryOp unaries[] = {UnaryOp::neg, UnaryOp::exp, UnaryOp::tanh, UnaryOp::abs, UnaryOp::floor, UnaryOp::sigmoid, UnaryOp::erf};
    const BinaryOp binaries[] = {BinaryOp::add, BinaryOp::sub, BinaryOp::mul, BinaryOp::div, BinaryOp::min, BinaryOp::max, BinaryOp::lt,
                                 BinaryOp::le,  BinaryOp::gt,  BinaryOp::ge,  BinaryOp::eq,  BinaryOp::ne,  BinaryOp::pow};
    const DType types[] = {DType::f32, DType::bf16, DType::s8, DType::s32};
    switch (below(6)) {
      case 0:
        return unary(unaries[below(7)], expression(depth - 1).expr);
      case 1:
        return select(expression(depth - 1), expression(depth - 1), expression(depth - 1));
      case 2:
        return cast(types[below(4)], expression(depth - 1));
      default: {
        const Ex x = expression(depth - 1);
        return binary(binaries[below(13)], x.expr, expression(depth - 1).expr);
      }
    }
  }

  std::mt19937 random_;
  Builder builder_;
  std::vector<Known> tensors_;
  std::vector<Ax> axes_;
};

Reference evaluate(const TensorProgram& p) {
  const std::vector<int64_t> dims(p.dims.size(), 3);
  std::vector<std::vector<uint8_t>> data;
  std::vector<const void*> inputs;
  for (int t : p.inputs) {
    int64_t span = 1;
    for (size_t d = 0; d < p[t].shape.size(); ++d) span += (p[t].shape[d].eval(dims) - 1) * p[t].strides[d].eval(dims);
    data.emplace_back(size_t(span) * size_t(size_of(p[t].dtype)));
    for (size_t i = 0; i < data.back().size(); ++i) data.back()[i] = uint8_t((i * 37 + size_t(t)) % 60);
  }
  for (const auto& d : data) inputs.push_back(d.data());
  return evaluate_reference(p, inputs, dims);
}

bool same_values(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) { return x == y || (x != x && y != y); });
}

}  // namespace

TEST_CASE("print and parse are inverse on random programs") {
  for (uint32_t seed = 1; seed <= 1500; ++seed) {
    const TensorProgram p = Generator(seed).program();
    const std::string text = print_json(p);
    INFO("seed " << seed << "\n" << text);
    const TensorProgram again = parse_program(text);
    REQUIRE(print_json(again) == text);
    REQUIRE(equal(again, p));
  }
}

TEST_CASE("the reference is deterministic and complete on random programs") {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    const TensorProgram p = Generator(seed).program();
    const Reference a = evaluate(p), b = evaluate(parse_program(print_json(p)));
    REQUIRE(a.outputs.size() == p.outputs.size());
    for (size_t o = 0; o < a.outputs.size(); ++o) {
      REQUIRE(same_values(a.outputs[o], b.outputs[o]));
      REQUIRE(same_values(a.magnitude[o], b.magnitude[o]));
    }
  }
}
