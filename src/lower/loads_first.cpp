// The order of a tile's loads and stores on a GPU. Threads issue in order, and the compiler moves no load over a store that might be to the
// same place (pointers come from a struct, so that it cannot tell): loads that follow stores would wait for memory one after the other.
#include <algorithm>
#include <set>

#include "lower/context.h"
#include "lower/primitives.h"

namespace rgen::lower {

namespace {

class LoadsFirst {
 public:
  LoadsFirst(const LoopProgram& p, int ahead) : p_(p), ahead_(ahead) {}

  Body run(Body body) {
    for (Stmt& s : body) {
      if (const Op* op = std::get_if<Op>(&s.node))
        place(s, *op);
      else if (const LetInt* l = std::get_if<LetInt>(&s.node))
        place_definition(s, known(l->a) && known(l->b), late_variables_, l->var);
      else if (const LetPtr* q = std::get_if<LetPtr>(&s.node))
        place_definition(s, known(q->offset), late_pointers_, q->pointer);
      else
        flush(), out_.push_back(std::move(s));
    }
    flush();
    return std::move(out_);
  }

 private:
  const LoopProgram& p_;
  const int ahead_;
  Body out_, stores_;  ///< from the first store on, but for what has gone ahead of it
  int loads_ = 0;      ///< that stand together
  bool after_store_ = false;
  std::set<int> late_variables_, late_pointers_, late_registers_, stored_;  ///< defined among `stores_`; buffers

  void flush() {
    std::move(stores_.begin(), stores_.end(), std::back_inserter(out_));
    stores_.clear(), loads_ = 0, after_store_ = false;
    late_variables_.clear(), late_pointers_.clear(), late_registers_.clear(), stored_.clear();
  }
  bool known(const Int& i) const {
    return std::none_of(i.terms.begin(), i.terms.end(), [&](const auto& t) { return late_variables_.count(t.first) > 0; });
  }
  bool known(const Arg& a) const {
    if (const Reg* r = std::get_if<Reg>(&a)) return !late_registers_.count(r->id);
    if (const Address* m = std::get_if<Address>(&a))
      return !late_pointers_.count(m->pointer) && known(m->offset) && !stored_.count(buffer(*m));
    const Int* i = std::get_if<Int>(&a);
    return !i || known(*i);
  }
  int buffer(const Address& a) const { return p_.pointers[size_t(a.pointer)].buffer; }

  void place_definition(Stmt& s, bool can_go_ahead, std::set<int>& late, int defined) {
    if (stores_.empty() || can_go_ahead) return out_.push_back(std::move(s));
    late.insert(defined);
    stores_.push_back(std::move(s));
  }

  void place(Stmt& s, const Op& op) {
    const auto& uses = memory_uses(op);
    const bool writes = std::any_of(uses.begin(), uses.end(), [](const MemoryUse& u) { return u.write; });
    if (op.result < 0 && !writes) {  // it does something else
      flush();
      return out_.push_back(std::move(s));
    }
    const bool fresh = op.result >= 0 && !op.assign && p_.registers[size_t(op.result)].array == 0;
    if (fresh && !uses.empty() && !writes) {
      if (loads_ >= ahead_ && after_store_) flush();  // those of a point stay together
      if (stores_.empty() || std::all_of(op.args.begin(), op.args.end(), [&](const Arg& a) { return known(a); })) {
        ++loads_, after_store_ = false;
        return out_.push_back(std::move(s));
      }
    }
    if (writes)
      for (const Arg& a : op.args)
        if (const Address* to = std::get_if<Address>(&a)) stored_.insert(buffer(*to));
    if (!writes && stores_.empty()) return out_.push_back(std::move(s));
    after_store_ |= writes;
    if (op.result >= 0) late_registers_.insert(op.result);
    stores_.push_back(std::move(s));
  }
};

}  // namespace

Body loads_first(const LoopProgram& program, Body body, int ahead) { return LoadsFirst(program, ahead).run(std::move(body)); }

}  // namespace rgen::lower
