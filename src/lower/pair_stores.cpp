// Two vectors of 16-bit results that are neighbours leave as one line of 128 bytes: L2 takes as long for half a line as for a whole one.
#include <algorithm>
#include <map>
#include <optional>

#include "lower/context.h"

namespace rgen::lower {

namespace {

class PairStores {
 public:
  explicit PairStores(const LoopProgram& p) : p_(p) {}

  Body run(Body body) {
    for (Stmt& s : body) {
      if (const LetInt* l = std::get_if<LetInt>(&s.node)) {
        if (l->op == LetInt::Op::value) values_[l->var] = expanded(l->a);
      } else if (const LetPtr* q = std::get_if<LetPtr>(&s.node)) {
        pointers_[q->pointer] = expanded(q->offset);
      } else if (const Op* op = std::get_if<Op>(&s.node)) {
        if (pair(*op)) continue;
      } else {
        waiting_.clear();
      }
      out_.push_back(std::move(s));
    }
    std::erase_if(out_, [](const Stmt& s) {
      const Op* op = std::get_if<Op>(&s.node);
      return op && op->primitive.empty();
    });
    return std::move(out_);
  }

 private:
  struct Store {
    std::string primitive;
    int buffer;
    Int at;
    Address to;
    Arg value;
    size_t place;  ///< in out_
  };
  const LoopProgram& p_;
  Body out_;
  std::map<int, Int> values_, pointers_;
  std::vector<Store> waiting_;

  /// In terms of variables that are no others' values.
  Int expanded(const Int& x) const {
    Int all(x.constant);
    for (const auto& [var, coefficient] : x.terms) {
      const auto value = values_.find(var);
      all = all + (value == values_.end() ? Int::var(var, coefficient) : value->second * coefficient);
    }
    return all;
  }
  static bool even(const Int& x) {
    return x.constant % 2 == 0 && std::all_of(x.terms.begin(), x.terms.end(), [](const auto& t) { return t.second % 2 == 0; });
  }
  std::optional<Store> store(const Op& op) const {
    if (op.primitive != "vf_store_bf16" && op.primitive != "vf_store_f16") return {};
    const Address& to = std::get<Address>(op.args[0]);
    const auto pointer = pointers_.find(to.pointer);
    if (pointer == pointers_.end()) return {};
    const Int at = pointer->second + expanded(to.offset);
    return even(at) ? std::optional(Store{op.primitive, p_.pointers[size_t(to.pointer)].buffer, at, to, op.args[1], out_.size()})
                    : std::nullopt;
  }
  /// The store's neighbour has come before: both become one here.
  bool pair(const Op& op) {
    const auto s = store(op);
    if (!s) return false;
    for (auto other = waiting_.begin(); other != waiting_.end(); ++other) {
      const bool first = other->at == s->at + Int(p_.lanes), second = s->at == other->at + Int(p_.lanes);
      if (other->primitive != s->primitive || other->buffer != s->buffer || !(first || second)) continue;
      const Store &lower = first ? *s : *other, &upper = first ? *other : *s;
      const std::string primitive = "vf_store_pair" + s->primitive.substr(std::string("vf_store").size());
      out_[other->place] = {Op{"", -1, false, {}}};  // taken out at the end
      out_.push_back({Op{primitive, -1, false, {lower.to, lower.value, upper.value}}});
      waiting_.erase(other);
      return true;
    }
    waiting_.push_back(*s);
    return false;
  }
};

}  // namespace

Body pair_stores(const LoopProgram& program, Body body) { return PairStores(program).run(std::move(body)); }

}  // namespace rgen::lower
