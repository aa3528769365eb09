#include "driver/work.h"

namespace rgen::driver {

namespace {

using namespace ir;

double operations(const Expr& e) {
  return std::visit(overloaded{[](const Const&) { return 0.0; }, [](const Access&) { return 0.0; }, [](const IndexValue&) { return 0.0; },
                               [](const Unary& u) { return 1 + operations(*u.x); },
                               [](const Binary& b) { return 1 + operations(*b.x) + operations(*b.y); },
                               [](const Select& s) { return 1 + operations(*s.condition) + operations(*s.yes) + operations(*s.no); },
                               [](const Cast& c) { return operations(*c.x); }},
                    e.node);
}

double bytes(const Tensor& t) {
  double n = size_of(t.dtype);
  for (const Size& s : t.shape) n *= double(s.value());
  return n;
}

}  // namespace

WorkAmount amount_of_work(const TensorProgram& program) {
  WorkAmount work;
  for (const Stage& stage : program.stages) {
    double points = 1;
    for (const Axis& a : stage.axes) points *= double(a.extent.value());
    work.operations += points * (operations(*stage.body) + (stage.reduce == ReduceOp::none ? 0 : 1));
  }
  for (int t : program.inputs) work.bytes += bytes(program[t]);
  for (int t : program.outputs) work.bytes += bytes(program[t]);
  return work;
}

}  // namespace rgen::driver
