// Structural check of a loop program before it is printed: registers and variables are defined before use, calls match their
// procedures, pointers point somewhere. Bounds, coverage and races are checked by execution (simulate.h), in the tests.
#include <functional>
#include <set>

#include "base/error.h"
#include "ir/tensor_program.h"
#include "lower/loop_program.h"

namespace rgen::lower {

namespace {

class Checker {
 public:
  explicit Checker(const LoopProgram& p) : p_(p) {}

  void run() {
    for (const Proc& q : p_.procs) {
      proc_ = &q;
      variables_ = {q.params.begin(), q.params.end()};
      registers_.clear(), pointers_.clear();
      body(q.body);
    }
    for (const Region& r : p_.regions) {
      if (r.proc < 0 || size_t(r.proc) >= p_.procs.size() || r.tasks < 1) fail("a region without procedure or tasks");
      const size_t want = p_.procs[size_t(r.proc)].params.size();
      if (want > (r.threads > 0 || r.warps > 0 ? 2 : 1)) fail("a region's procedure takes more than its task");
    }
  }

 private:
  const LoopProgram& p_;
  const Proc* proc_ = nullptr;
  std::set<int> variables_, registers_, pointers_;

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::internal, "loop program: " + what, proc_ ? proc_->name : "");
  }
  void check(const Int& i) const {
    for (const auto& [v, k] : i.terms)
      if (!variables_.count(v)) fail("variable '" + p_.variables[size_t(v)].name + "' is used before it is set");
  }
  void check(const Arg& a) const {
    std::visit(ir::overloaded{[&](const Reg& r) {
                                if (!registers_.count(r.id))
                                  fail("register '" + p_.registers[size_t(r.id)].name + "' is used before it is set");
                                if (r.element >= p_.registers[size_t(r.id)].array) fail("an element beyond its register array");
                              },
                              [&](const Address& m) {
                                if (!pointers_.count(m.pointer))
                                  fail("pointer '" + p_.pointers[size_t(m.pointer)].name + "' is used before it is set");
                                check(m.offset);
                              },
                              [&](const Int& i) { check(i); }, [](double) {}},
               a);
  }

  void scoped(const Body& b) {  // what is defined inside is gone outside
    const auto v = variables_, r = registers_, p = pointers_;
    body(b);
    variables_ = v, registers_ = r, pointers_ = p;
  }
  void body(const Body& b) {
    for (const Stmt& s : b)
      std::visit(ir::overloaded{[&](const For& f) {
                                  check(f.begin), check(f.end);
                                  if (f.step < 1) fail("a loop that does not advance");
                                  variables_.insert(f.var);
                                  scoped(*f.body);
                                  variables_.erase(f.var);
                                },
                                [&](const If& f) {
                                  for (const Int& i : f.all_nonnegative) check(i);
                                  scoped(*f.then), scoped(*f.otherwise);
                                },
                                [&](const LetInt& l) { check(l.a), check(l.b), variables_.insert(l.var); },
                                [&](const LetPtr& l) { check(l.offset), pointers_.insert(l.pointer); },
                                [&](const Op& o) {
                                  const bool array = o.result >= 0 && p_.registers[size_t(o.result)].array > 0;
                                  if (array) registers_.insert(o.result);
                                  for (const Arg& a : o.args) check(a);
                                  if (o.result < 0 || array) return;
                                  if (o.assign && !registers_.count(o.result)) fail("assignment to an undeclared register");
                                  registers_.insert(o.result);
                                },
                                [&](const Call& c) {
                                  if (c.proc < 0 || size_t(c.proc) >= p_.procs.size()) fail("a call of nothing");
                                  if (c.args.size() != p_.procs[size_t(c.proc)].params.size())
                                    fail("a call with the wrong number of arguments");
                                  for (const Int& i : c.args) check(i);
                                },
                                [](const Comment&) {}},
                 s.node);
  }
};

}  // namespace

void verify(const LoopProgram& program) { Checker(program).run(); }

}  // namespace rgen::lower
