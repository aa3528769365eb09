// Loads before stores. A thread of a GPU goes on past a load until its value is used, but not past a store that might have written it: the
// compiler keeps the order of accesses that it cannot tell apart, and a tile that loads, stores and loads again has one load under way
// (a warp's 7 vectors of a ReLU on an H200: 170 µs for 2 × 256 MB, 128 is the memory's time).
#include <set>

#include "lower/lower.h"
#include "lower/primitives.h"

namespace rgen::lower {

namespace {

class Delay {
 public:
  explicit Delay(const LoopProgram& p) : p_(p) {}

  Body run(const Body& body) {
    for (const Stmt& s : body) std::visit([&](const auto& node) { visit(node); }, s.node);
    flush();
    return std::move(out_);
  }

 private:
  const LoopProgram& p_;
  Body out_, stores_;
  std::set<int> written_, used_;  ///< by the stores that wait: buffers; pointers and registers

  void flush() {
    out_.insert(out_.end(), stores_.begin(), stores_.end());
    stores_.clear(), written_.clear(), used_.clear();
  }
  static int of_pointer(int pointer) { return 2 * pointer; }
  static int of_register(int reg) { return 2 * reg + 1; }
  int buffer(const Address& a) const { return p_.pointers[size_t(a.pointer)].buffer; }

  /// One vector to memory, which nothing but a load of the same buffer can notice.
  static bool is_store(const Op& op) {
    if (op.result >= 0 || op.primitive.find("_store_") == std::string::npos || op.primitive.rfind("v", 0) != 0) return false;
    const std::vector<MemoryUse>& uses = memory_uses(op);
    return uses.size() == 1 && uses[0].write;
  }
  void wait(const Op& op) {
    for (const Arg& arg : op.args) {
      if (const Address* a = std::get_if<Address>(&arg)) written_.insert(buffer(*a)), used_.insert(of_pointer(a->pointer));
      if (const Reg* r = std::get_if<Reg>(&arg)) used_.insert(of_register(r->id));
    }
    stores_.push_back({op});
  }
  bool disturbs(const Op& op) const {
    if (op.result >= 0 ? used_.count(of_register(op.result)) > 0 : true) return true;  // an effect: what it orders is not known
    for (const Arg& arg : op.args)
      if (const Address* a = std::get_if<Address>(&arg); a && written_.count(buffer(*a))) return true;
    return false;
  }

  void visit(const Op& op) {
    if (is_store(op)) return wait(op);
    if (disturbs(op)) flush();
    out_.push_back({op});
  }
  void visit(const LetPtr& let) {
    if (used_.count(of_pointer(let.pointer))) flush();
    out_.push_back({let});
  }
  void visit(const LetInt& let) { out_.push_back({let}); }  // variables are defined once
  void visit(const Comment& comment) { out_.push_back({comment}); }
  void visit(const Call& call) { flush(), out_.push_back({call}); }
  void visit(For loop) {
    flush();
    *loop.body = Delay(p_).run(*loop.body);
    out_.push_back({std::move(loop)});
  }
  void visit(If choice) {
    flush();
    for (const auto& branch : {choice.then, choice.otherwise})
      if (branch) *branch = Delay(p_).run(*branch);
    out_.push_back({std::move(choice)});
  }
};

}  // namespace

void stores_last(LoopProgram& program) {
  for (Proc& p : program.procs) p.body = Delay(program).run(p.body);
}

}  // namespace rgen::lower
