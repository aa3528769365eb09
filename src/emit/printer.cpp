// How statements, expressions and procedures read.
#include "emit/printer.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/math.h"
#include "emit/names.h"
#include "ir/ir.h"

namespace rgen::emit {

using namespace lower;

Printer::Printer(const LoopProgram& p, const Dialect& dialect) : p_(p), dialect_(dialect) {
  std::map<std::string, int> seen = {{"task", 1}};  // a kernel's number, beside its buffers
  for (const Buffer& b : p.buffers) buffer_names_.push_back(unique(seen, free_name(b.name)));
  for (const Proc& q : p.procs) proc_names_.push_back(unique(seen, free_name(q.name)));
}

std::string Printer::definitions() {
  out_ << "/// Where the tensors are.\nstruct tensors {\n";
  for (size_t i = 0; i < p_.buffers.size(); ++i)
    if (in_memory(p_.buffers[i])) out_ << "  " << type(p_.buffers[i]) << " " << buffer_names_[i] << ";\n";
  out_ << "};\n";
  for (size_t i = 0; i < p_.procs.size(); ++i) proc(int(i));
  return out_.str();
}

bool Printer::in_memory(const Buffer& b) { return b.kind != Buffer::Kind::local && b.kind != Buffer::Kind::shared; }

std::string Printer::type(const Buffer& b) {
  if (b.kind == Buffer::Kind::map) return "const void*";
  return (b.kind == Buffer::Kind::input ? "const " : "") + std::string(c_type(b.dtype)) + "*";
}

void Printer::for_each_buffer(int proc, const std::function<void(int)>& visit) const {
  const std::function<void(const Body&)> walk = [&](const Body& body) {
    for (const Stmt& s : body)
      std::visit(ir::overloaded{[&](const For& f) { walk(*f.body); }, [&](const If& f) { walk(*f.then), walk(*f.otherwise); },
                                [&](const LetPtr& l) { visit(p_.pointers[size_t(l.pointer)].buffer); },
                                [&](const Call& x) { for_each_buffer(x.proc, visit); }, [](const auto&) {}},
                 s.node);
  };
  walk(p_.procs[size_t(proc)].body);
}

std::set<int> Printer::buffers_of(int proc) const {
  std::set<int> all;
  for_each_buffer(proc, [&](int b) {
    if (in_memory(p_.buffers[size_t(b)])) all.insert(b);
  });
  return all;
}

int64_t Printer::block_bytes(int proc) const {
  int64_t bytes = 0;
  for_each_buffer(proc, [&](int number) {
    const Buffer& b = p_.buffers[size_t(number)];
    if (b.kind == Buffer::Kind::shared) bytes = std::max(bytes, round_up(b.offset + b.elements * size_of(b.dtype), 16));
  });
  return bytes;
}

std::string Printer::free_name(const std::string& hint) const {
  const std::string name = identifier(hint);
  return prelude_has(dialect_.unit, name) ? name + "_" : name;
}

std::string Printer::unique(std::map<std::string, int>& seen, const std::string& name) {
  const int n = seen[name]++;
  return n == 0 ? name : unique(seen, name + std::to_string(n));
}

std::ostream& Printer::line() {
  for (int i = 0; i < indent_; ++i) out_ << "  ";
  return out_;
}

std::string Printer::local(std::map<int, std::string>& names, int id, const std::string& hint) {
  if (const auto it = names.find(id); it != names.end()) return it->second;
  return names.emplace(id, unique(local_names_, free_name(hint))).first->second;
}

std::string Printer::print(const Int& i) {
  std::string s;
  for (const auto& [v, k] : i.terms) {
    const int64_t magnitude = std::abs(k);
    s += s.empty() ? (k < 0 ? "-" : "") : (k < 0 ? " - " : " + ");
    s += (magnitude == 1 ? "" : std::to_string(magnitude) + " * ") + var(v);
  }
  if (i.constant != 0 || s.empty())
    s += s.empty() ? std::to_string(i.constant) : (i.constant < 0 ? " - " : " + ") + std::to_string(std::abs(i.constant));
  return s;
}

bool Printer::nonnegative(const Int& i) const {
  int64_t lo = i.constant;
  for (const auto& [v, k] : i.terms) lo += k * (k > 0 ? p_.variables[size_t(v)].lo : p_.variables[size_t(v)].hi);
  return lo >= 0;
}

std::string Printer::literal(double d, bool integer) const {
  if (integer) return std::to_string(int64_t(std::clamp(d, -2147483648.0, 2147483647.0)));  // infinite fill values saturate
  if (std::isnan(d)) return std::string(dialect_.nan);
  if (std::isinf(d)) return (d > 0 ? "" : "-") + std::string(dialect_.infinity);
  std::ostringstream o;
  o.precision(9);
  o << float(d);
  std::string s = o.str();
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s + "f";
}

std::string Printer::element(const Address& a) {
  const std::string i = print(a.offset);
  return pointer(a.pointer) + "[" + i + "]";
}

std::string Printer::print(const Arg& a, bool integer, const std::string& primitive) {
  return std::visit(ir::overloaded{[&](const Reg& r) { return reg(r.id) + (r.element >= 0 ? "[" + std::to_string(r.element) + "]" : ""); },
                                   [&](const Address& m) {
                                     const Buffer& b = p_.buffers[size_t(p_.pointers[size_t(m.pointer)].buffer)];
                                     std::string s = pointer(m.pointer);
                                     if (m.offset != Int(0)) s += " + " + print(m.offset);
                                     if (primitive.ends_with("_s32") && b.dtype != DType::s32) s = "reinterpret_cast<int32_t*>(" + s + ")";
                                     return s;
                                   },
                                   [&](const Int& i) { return print(i); }, [&](double d) { return literal(d, integer); }},
                    a);
}

void Printer::op(const Op& o) {
  if ((o.primitive == "reload" || o.primitive == "hold") && !dialect_.keeps) return;
  static const std::map<std::string, std::string> infix = {{"add", "+"}, {"sub", "-"}, {"mul", "*"}, {"div", "/"}, {"xor", "^"}};
  const bool integer = o.primitive.starts_with("vi_");
  std::vector<std::string> args;
  for (const Arg& a : o.args) args.push_back(print(a, integer, o.primitive));
  std::string value;
  const bool array = o.result >= 0 && p_.registers[size_t(o.result)].array > 0;
  if (array && !local_declared_.count(o.result)) declare_array(o.result);
  if (o.primitive == "copy_tf32") {
    used.insert("nearest_tf32");
    line() << element(std::get<Address>(o.args[0])) << " = nearest_tf32(" << element(std::get<Address>(o.args[1])) << ");\n";
    return;
  }
  if (o.primitive == "copy_element") {
    const Address &to = std::get<Address>(o.args[0]), &from = std::get<Address>(o.args[1]);
    const DType wide = element_type(to), narrow = element_type(from);
    if (wide == narrow || !is_float(narrow)) {
      line() << element(to) << " = " << element(from) << ";\n";
    } else {
      const std::string widen = "vf_bcast_" + std::string(to_string(narrow));
      used.insert(widen);
      line() << element(to) << " = " << widen << "(" << args[1] << ")[0];\n";
    }
    return;
  }
  if (o.primitive == "zero_element") {
    line() << element(std::get<Address>(o.args[0])) << " = 0;\n";
    return;
  }
  if (o.primitive == "configure_tiles") {  // a constant table
    used.insert({"tile_config", "tile_configure", "amx_request"});
    std::string rows, bytes;
    for (size_t i = 0; i < args.size(); i += 2) {
      const char* const separator = i > 0 ? ", " : "";
      rows += separator + args[i], bytes += separator + args[i + 1];
    }
    const std::string name = unique(local_names_, "shape");
    line() << "static const tile_config " << name << " = {1, 0, {}, {" << bytes << "}, {" << rows << "}};\n";
    line() << "tile_configure(&" << name << ");\n";
    return;
  }
  if (fragment_op(o, args) || block_op(o, args)) return;
  if (o.keep && dialect_.keeps && o.primitive == "vf_fma") {  // into the sum that it reads
    const std::string primitive = o.element ? "vf_fma_one_to" : "vf_fma_to";
    used.insert(primitive);
    line() << primitive << "(" << reg(o.result) << ", " << args[0] << ", " << args[1] << ");\n";
    return;
  }
  const size_t skip = array ? 1 : 0;
  if (const auto it = infix.find(o.primitive); it != infix.end()) {
    value = args[skip] + " " + it->second + " " + args[skip + 1];
  } else if (o.primitive == "copy") {
    value = args[skip];
  } else {
    used.insert(o.primitive);
    if (o.primitive.find("_rows_") != std::string::npos || o.primitive.ends_with("interleave"))  // how many is a constant of the type
      value = o.primitive + "<" + args.back() + ">", args.pop_back();
    else
      value = o.primitive;
    value += "(";
    for (size_t i = skip; i < args.size(); ++i) value += (i > skip ? ", " : "") + args[i];
    value += ")";
    // the horizontal reductions give a number
    if (o.primitive.starts_with("vf_h")) used.insert("vf_set"), value = "vf_set(" + value + ")";
    if (o.primitive.starts_with("vi_h")) used.insert("vi_set"), value = "vi_set(" + value + ")";
    if (o.keep && dialect_.keeps) used.insert("keep"), value = "keep(" + value + ")";
  }
  if (o.result < 0)
    line() << value << ";\n";
  else if (array)
    line() << args[0] << " = " << value << ";\n";
  else if (o.assign)
    line() << reg(o.result) << " = " << value << ";\n";
  else
    line() << (p_.registers[size_t(o.result)].integer ? "vi " : "vf ") << reg(o.result) << " = " << value << ";\n";
}

/// Fragments are named by number: sums, and parts of the factors.
bool Printer::fragment_op(const Op& o, const std::vector<std::string>& args) {
  const auto element_of = [](const std::string& array, const std::string& i) { return array + "[" + i + "]"; };
  if (o.primitive == "fragments") {
    sums_ = unique(local_names_, "sums"), parts_ = unique(local_names_, "parts");
    line() << (args[2] == "0" ? "vf " : "vi ") << sums_ << "[" << args[0] << "][16];\n";
    if (args[1] != "0") line() << "vu " << parts_ << "[" << args[1] << "][16];\n";
    return true;
  }
  if (o.primitive == "products_f32") {
    used.insert(o.primitive);
    line() << o.primitive << "<" << args[0] << ", " << args[1] << ">(" << sums_ << ", " << parts_ << (args[2] == "0" ? "" : " + " + args[2])
           << ");\n";
    return true;
  }
  const bool product = o.primitive.starts_with("mma_"),
             part = o.primitive.starts_with("fragment_load") || o.primitive.starts_with("fragment_staged");
  if (!product && !o.primitive.starts_with("fragment_")) return false;
  used.insert(o.primitive);
  line() << o.primitive << "(" << element_of(part ? parts_ : sums_, args[0]);
  if (o.primitive == "fragment_store_pair") {  // sums of two tiles
    out_ << ", " << element_of(sums_, args[1]) << ", " << args[2] << ", " << args[3] << ");\n";
    return true;
  }
  if (o.primitive == "fragment_load_piece") {  // from, and the conditions without which it is zeros
    const std::string inside = conditions(o, 2);
    out_ << ", " << args[1] << (inside.empty() ? "" : ", " + inside) << ");\n";
    return true;
  }
  for (size_t i = 1; i < args.size(); ++i) out_ << ", " << (product ? element_of(parts_, args[i]) : args[i]);
  out_ << ");\n";
  return true;
}

/// What a block's or a warp's threads do together.
bool Printer::block_op(const Op& o, const std::vector<std::string>& args) {
  if (o.primitive == "block_sync" || o.primitive == "warp_sync") {
    line() << (o.primitive == "block_sync" ? "__syncthreads();\n" : "__syncwarp();\n");
    return true;
  }
  if (o.primitive == "cp_wait" || o.primitive == "wgmma_wait" || o.primitive == "barrier_release" || o.primitive == "bulk_copy_all" ||
      o.primitive.starts_with("registers_")) {
    used.insert(o.primitive);  // the number is a template's argument
    line() << o.primitive << "<" << args[0] << ">(";
    for (size_t i = 1; i < args.size(); ++i) out_ << (i > 1 ? ", " : "") << args[i];
    out_ << ");\n";
    return true;
  }
  if (o.primitive.starts_with("wgmma_") && o.args.size() == 6) {  // the first of its sums, columns; where each factor is staged, its rows
    used.insert(o.primitive + "_n" + args[1]);
    const auto descriptor = [&](size_t at) {  // a factor of no rows is in rows of boxes
      const bool boxes = args[at + 1] == "0";
      used.insert(boxes ? "box_descriptor" : "stage_descriptor");
      return boxes ? "box_descriptor(" + args[at] + ")" : "stage_descriptor(" + args[at] + ", " + args[at + 1] + ")";
    };
    line() << o.primitive << "<" << args[1] << ">(" << sums_ << "[" << args[0] << "], " << descriptor(2) << ", " << descriptor(4) << ");\n";
    return true;
  }
  const bool part = o.primitive == "cp16_part", element = o.primitive == "cp4";
  if (!part && !element && o.primitive != "cp16") return false;
  used.insert(o.primitive);  // to, from, of a part the bytes that are left, and the conditions without which zeros are copied
  const std::string inside = conditions(o, part ? 3 : 2);
  const std::string bytes = part ? args[2] : element ? "4" : "16";
  line() << o.primitive << "(" << args[0] << ", " << args[1];
  if (part || !inside.empty()) out_ << ", " << (inside.empty() ? bytes : inside + " ? " + bytes + " : 0");
  out_ << ");\n";
  return true;
}

void Printer::declare_array(int r) {
  local_declared_.insert(r);
  line() << (p_.registers[size_t(r)].integer ? "vi " : "vf ") << reg(r) << "[" << p_.registers[size_t(r)].array << "];\n";
}

std::string Printer::conditions(const Op& o, size_t first) {
  std::vector<Int> all;
  for (size_t i = first; i < o.args.size(); ++i) all.push_back(std::get<Int>(o.args[i]));
  return all.empty() ? "" : condition(all);
}

std::string Printer::condition(const std::vector<Int>& all) {
  std::string s;
  for (size_t n = 0; n < all.size(); ++n) {
    const Int& i = all[n];
    // x − c >= 0 and c − x >= 0 read better as x == c, c − x >= 0 reads better as x <= c
    std::string one;
    if (n + 1 < all.size() && all[n + 1] == Int(0) - i && i.terms.size() == 1 && i.terms[0].second == 1)
      one = var(i.terms[0].first) + " == " + std::to_string(-i.constant), ++n;
    else if (i.terms.size() == 1 && i.terms[0].second == -1)
      one = var(i.terms[0].first) + " <= " + std::to_string(i.constant);
    else if (i.terms.size() == 1 && i.terms[0].second == 1)
      one = var(i.terms[0].first) + " >= " + std::to_string(-i.constant);
    else if (std::all_of(i.terms.begin(), i.terms.end(), [](const auto& t) { return t.second < 0; }))
      one = print(Int(i.constant) - i) + " <= " + std::to_string(i.constant);
    else
      one = print(i) + " >= 0";
    s += (s.empty() ? "" : " && ") + one;
  }
  return s.empty() ? "true" : s;
}

void Printer::body(const Body& b) {
  ++indent_;
  for (const Stmt& s : b) std::visit([&](const auto& x) { stmt(x); }, s.node);
  --indent_;
}

bool Printer::innermost(const Body& b) {
  return std::all_of(b.begin(), b.end(), [](const Stmt& s) {
    const If* i = std::get_if<If>(&s.node);
    return !std::holds_alternative<For>(s.node) && (!i || (innermost(*i->then) && innermost(*i->otherwise)));
  });
}

void Printer::stmt(const For& f) {
  const std::string v = var(f.var);
  std::string begin = print(f.begin), step = std::to_string(f.step);
  const bool outer = dealt_out_ && outermost_, inner = dealt_out_ && innermost(*f.body);
  if (outer || inner) {
    const std::string by = outer && inner ? "(blockIdx.x * blockDim.x + threadIdx.x)" : outer ? "blockIdx.x" : "threadIdx.x";
    const std::string of = outer && inner ? "gridDim.x * blockDim.x" : outer ? "gridDim.x" : "blockDim.x";
    const std::string times = f.step == 1 ? "" : " * " + step;
    begin = (begin == "0" ? "" : begin + " + ") + by + times, step = of + times;
  }
  if (f.unroll != For::Unroll::as_compiled) out_ << (f.unroll == For::Unroll::never ? "#pragma unroll 1\n" : "#pragma unroll\n");
  line() << "for (" << dialect_.integer << " " << v << " = " << begin << "; " << v << " < " << print(f.end) << "; "
         << (step == "1" ? "++" + v : v + " += " + step) << ") {\n";
  outermost_ = false;
  body(*f.body);
  outermost_ = outer;
  line() << "}\n";
}

void Printer::stmt(const If& f) {
  line() << "if (" << condition(f.all_nonnegative) << ") {\n";
  body(*f.then);
  if (!f.otherwise->empty()) {
    line() << "} else {\n";
    body(*f.otherwise);
  }
  line() << "}\n";
}

void Printer::stmt(const LetInt& l) {
  std::string value;
  const std::string a = print(l.a), b = print(l.b);
  const auto grouped = [](const std::string& s) { return s.find(' ') == std::string::npos ? s : "(" + s + ")"; };
  switch (l.op) {
    case LetInt::Op::value:
      value = a;
      break;
    case LetInt::Op::min:
      value = grouped(a) + " < " + grouped(b) + " ? " + a + " : " + b;
      break;
    case LetInt::Op::max:
      value = grouped(a) + " > " + grouped(b) + " ? " + a + " : " + b;
      break;
    case LetInt::Op::uniform:
      value = "__shfl_sync(0xffffffffu, " + a + ", 0)";
      break;
    case LetInt::Op::exclusive_or:
      value = grouped(a) + " ^ " + grouped(b);
      break;
    case LetInt::Op::floor_div:
    case LetInt::Op::floor_mod: {
      const bool div = l.op == LetInt::Op::floor_div;
      if (nonnegative(l.a)) {
        value = grouped(a) + (div ? " / " : " % ") + b;
      } else {
        used.insert(div ? "floor_div" : "floor_mod");
        value = (div ? "floor_div(" : "floor_mod(") + a + ", " + b + ")";
      }
    }
  }
  line() << "const " << dialect_.integer << " " << var(l.var) << " = " << value << ";\n";
}

void Printer::stmt(const LetPtr& l) {
  const Pointer& p = p_.pointers[size_t(l.pointer)];
  const Buffer& b = p_.buffers[size_t(p.buffer)];
  if (b.kind == Buffer::Kind::local && dialect_.shared_locals) {
    used.insert("warp_memory");
    line() << type(b) << " const " << pointer(l.pointer) << " = static_cast<" << type(b) << ">(warp_memory(" << local_bytes_ << "));\n";
    local_bytes_ += round_up(b.elements * size_of(b.dtype), 16);
    warp_bytes = std::max(warp_bytes, local_bytes_);
    return;
  }
  if (b.kind == Buffer::Kind::local) {
    line() << "alignas(64) " << c_type(b.dtype) << " " << pointer(l.pointer) << "[" << b.elements << "];\n";
    return;
  }
  if (b.kind == Buffer::Kind::shared) {
    used.insert("shared_base");
    std::string at = b.offset > 0 ? "shared_base() + " + std::to_string(b.offset) : "shared_base()";
    if (b.dtype != DType::u8) at = "(" + type(b) + ")(" + at + ")";
    line() << type(b) << " const " << pointer(l.pointer) << " = " << at;
    if (l.offset != Int(0)) out_ << " + " << print(l.offset);
    out_ << ";\n";
    return;
  }
  if (b.kind == Buffer::Kind::warp) used.insert("shared_base");
  const bool base = l.base && dialect_.keeps;
  if (base) used.insert("base");
  line() << type(b) << " const " << pointer(l.pointer) << " = " << (base ? "base(" : "") << "t->" << buffer_names_[size_t(p.buffer)];
  if (l.offset != Int(0)) out_ << " + " << print(l.offset);
  out_ << (base ? ");\n" : ";\n");
}

void Printer::stmt(const Call& c) {
  line() << proc_names_[size_t(c.proc)] << "(t";
  for (const Int& i : c.args) out_ << ", " << print(i);
  out_ << ");\n";
}

void Printer::proc(int number) {
  const Proc& q = p_.procs[size_t(number)];
  local_names_.clear(), variables_.clear(), registers_.clear(), pointers_.clear(), local_declared_.clear();
  for (const std::string& name : proc_names_) local_names_[name] = 1;
  local_bytes_ = 0;
  out_ << "\n";
  if (!q.comment.empty()) out_ << "/// " << q.comment << "\n";
  out_ << (q.apart ? dialect_.apart : dialect_.procedure) << " " << proc_names_[size_t(number)] << "(const tensors* t";
  for (int v : q.params) out_ << ", " << dialect_.integer << " " << var(v);
  out_ << ") {\n";
  dealt_out_ = outermost_ =
      dialect_.threads_copy && std::any_of(p_.prepacks.begin(), p_.prepacks.end(), [&](const Prepack& k) { return k.proc == number; });
  body(q.body);
  out_ << "}\n";
}

}  // namespace rgen::emit
