// The C++ printer: a loop program as one readable translation unit over the vector primitives of `prelude`.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "emit/backend.h"
#include "emit/prelude.h"
#include "ir/ir.h"
#include "lower/lower.h"

namespace rgen::emit {

using namespace lower;

namespace {

Simd simd_of(const hw::Profile& p) {
  if (p.arch == "aarch64" && p.has("neon")) return Simd::neon;
  if (p.arch == "x86-64" && p.vector_bits >= 512 && p.has("avx512f") && p.has("avx512bw") && p.has("avx512dq") && p.has("avx512vl"))
    return Simd::avx512;
  if (p.arch == "x86-64" && p.has("avx2") && p.has("fma")) return Simd::avx2;
  return Simd::portable;
}

std::string_view c_type(DType t) {
  switch (t) {
    case DType::f32:
      return "float";
    case DType::bf16:
    case DType::f16:
      return "uint16_t";
    case DType::s8:
      return "int8_t";
    case DType::u8:
      return "uint8_t";
    case DType::s32:
      return "int32_t";
  }
  return "void";
}

std::string identifier(const std::string& s) {
  static const std::set<std::string> taken = {
      "alignas", "and",      "asm",      "auto",   "bool",  "break",    "case",   "catch",     "char",    "class",    "const",  "continue",
      "default", "delete",   "do",       "double", "else",  "enum",     "extern", "false",     "float",   "for",      "goto",   "if",
      "inline",  "int",      "long",     "new",    "not",   "operator", "or",     "return",    "short",   "signed",   "sizeof", "static",
      "struct",  "switch",   "template", "this",   "throw", "true",     "try",    "typedef",   "union",   "unsigned", "using",  "virtual",
      "void",    "volatile", "while",    "xor",    "t",     "args",     "dims",   "workspace", "threads", "vf",       "vi",     "tensors"};
  std::string r;
  for (char c : s) r += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (r.empty() || std::isdigit(static_cast<unsigned char>(r[0]))) r = "_" + r;
  return taken.count(r) ? r + "_" : r;
}

uint64_t fnv1a(std::string_view s) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (char c : s) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return h;
}

/// Prints one program; collects the primitives it uses.
class Printer {
 public:
  explicit Printer(const LoopProgram& p) : p_(p) {
    std::map<std::string, int> seen;
    for (const Buffer& b : p.buffers) buffer_names_.push_back(unique(seen, identifier(b.name)));
    for (const Proc& q : p.procs) proc_names_.push_back(unique(seen, identifier(q.name)));
  }

  std::set<std::string> used;

  /// Everything but the entries.
  std::string definitions() {
    out_ << "/// Where the tensors are.\nstruct tensors {\n";
    for (size_t i = 0; i < p_.buffers.size(); ++i)
      if (p_.buffers[i].kind != Buffer::Kind::local) out_ << "  " << type(p_.buffers[i]) << buffer_names_[i] << ";\n";
    out_ << "};\n";
    for (size_t i = 0; i < p_.procs.size(); ++i) proc(int(i));
    return out_.str();
  }

  std::string entries(const std::string& symbol, size_t inputs, size_t outputs, std::vector<PrepackEntry>& prepacks) {
    std::ostringstream o;
    for (const Prepack& q : p_.prepacks) {
      const std::string name = symbol + "_prepack_" + identifier(p_.buffers[size_t(q.buffer_in)].name);
      prepacks.push_back({q.input, name, q.bytes});
      o << "\nextern \"C\" int " << name
        << "(const void* src, void* dst) {\n  if (!src) return 1;\n  if (!dst) return 2;\n  tensors t = {};\n"
        << "  t." << buffer_names_[size_t(q.buffer_in)] << " = static_cast<" << type(p_.buffers[size_t(q.buffer_in)]) << ">(src);\n"
        << "  t." << buffer_names_[size_t(q.buffer_out)] << " = static_cast<" << type(p_.buffers[size_t(q.buffer_out)]) << ">(dst);\n"
        << "  " << proc_names_[size_t(q.proc)] << "(&t);\n  return 0;\n}\n";
    }
    const bool parallel = std::any_of(p_.regions.begin(), p_.regions.end(), [](const Region& r) { return r.tasks > 1; });
    o << "\n/// " << inputs << " input" << (inputs == 1 ? "" : "s") << ", then " << outputs << " output" << (outputs == 1 ? "" : "s")
      << "; returns 0, or the number of the argument it refused.\n";
    o << "extern \"C\" int " << symbol << "(void* const* args, const int64_t* /*dims*/, void* workspace, const rgen_threads* threads) {\n"
      << "  if (!args) return 1;\n  for (int i = 0; i < " << inputs + outputs << "; ++i)\n    if (!args[i]) return 2;\n";
    o << (p_.workspace_bytes > 0 ? "  if (!workspace) return 3;\n" : "  (void)workspace;\n");
    if (!parallel) o << "  (void)threads;\n";
    if (used.count("amx_request")) o << "  static const long refused = amx_request();\n  if (refused) return 4;\n";
    o << "  tensors t = {};\n";
    for (size_t i = 0; i < p_.buffers.size(); ++i) {
      const Buffer& b = p_.buffers[i];
      if (b.kind == Buffer::Kind::local) continue;
      o << "  t." << buffer_names_[i] << " = static_cast<" << type(b) << ">(";
      if (b.kind == Buffer::Kind::workspace)
        o << "static_cast<void*>(static_cast<char*>(workspace) + " << b.offset << ")";
      else
        o << "args[" << b.argument << "]";
      o << ");\n";
    }
    for (const Region& r : p_.regions) {
      const Proc& q = p_.procs[size_t(r.proc)];
      if (r.tasks == 1) {
        o << "  " << proc_names_[size_t(r.proc)] << (q.params.empty() ? "(&t);\n" : "(&t, 0);\n");
        continue;
      }
      used.insert("parallel_for");
      o << "  parallel_for(threads, " << r.tasks << ", [](void* p, int64_t task) { ";
      if (per_task(r.proc)) {
        o << "\n    tensors t = *static_cast<const tensors*>(p);  // each task has its own tile buffers\n";
        for (size_t i = 0; i < p_.buffers.size(); ++i)
          if (p_.buffers[i].per_task > 0)
            o << "    t." << buffer_names_[i] << " += task * " << p_.buffers[i].per_task / size_of(p_.buffers[i].dtype) << ";\n";
        o << "    " << proc_names_[size_t(r.proc)] << "(&t, task);\n  }, &t);\n";
      } else {
        o << proc_names_[size_t(r.proc)] << "(static_cast<const tensors*>(p), task); }, &t);\n";
      }
    }
    o << "  return 0;\n}\n";
    return o.str();
  }

 private:
  const LoopProgram& p_;
  std::ostringstream out_;
  std::vector<std::string> buffer_names_, proc_names_;
  std::map<std::string, int> local_names_;
  std::map<int, std::string> variables_, registers_, pointers_;
  int indent_ = 0;

  static std::string unique(std::map<std::string, int>& seen, const std::string& name) {
    const int n = seen[name]++;
    return n == 0 ? name : unique(seen, name + std::to_string(n));
  }
  static bool constant(const Buffer& b) { return b.kind == Buffer::Kind::input; }
  static std::string type(const Buffer& b) { return (constant(b) ? "const " : "") + std::string(c_type(b.dtype)) + "*"; }

  /// Does the procedure (or one it calls) use a buffer of which every task has its own?
  bool per_task(int proc) const {
    bool any = false;
    const std::function<void(const Body&)> walk = [&](const Body& body) {
      for (const Stmt& s : body)
        std::visit(ir::overloaded{[&](const For& f) { walk(*f.body); }, [&](const If& f) { walk(*f.then), walk(*f.otherwise); },
                                  [&](const LetPtr& l) { any |= p_.buffers[size_t(p_.pointers[size_t(l.pointer)].buffer)].per_task > 0; },
                                  [&](const Call& c) { any |= per_task(c.proc); }, [](const auto&) {}},
                   s.node);
    };
    walk(p_.procs[size_t(proc)].body);
    return any;
  }

  std::ostream& line() {
    for (int i = 0; i < indent_; ++i) out_ << "  ";
    return out_;
  }
  std::string local(std::map<int, std::string>& names, int id, const std::string& hint) {
    if (const auto it = names.find(id); it != names.end()) return it->second;
    return names.emplace(id, unique(local_names_, identifier(hint))).first->second;
  }
  std::string var(int v) { return local(variables_, v, p_.variables[size_t(v)].name); }
  std::string reg(int r) { return local(registers_, r, p_.registers[size_t(r)].name); }
  std::string pointer(int p) { return local(pointers_, p, p_.pointers[size_t(p)].name); }

  std::string print(const Int& i) {
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
  bool nonnegative(const Int& i) const {
    int64_t lo = i.constant;
    for (const auto& [v, k] : i.terms) lo += k * (k > 0 ? p_.variables[size_t(v)].lo : p_.variables[size_t(v)].hi);
    return lo >= 0;
  }
  static std::string literal(double d, bool integer) {
    if (integer) return std::to_string(int64_t(std::clamp(d, -2147483648.0, 2147483647.0)));  // infinite fill values saturate
    if (std::isnan(d)) return "__builtin_nanf(\"\")";
    if (std::isinf(d)) return d > 0 ? "__builtin_inff()" : "-__builtin_inff()";
    std::ostringstream o;
    o.precision(9);
    o << float(d);
    std::string s = o.str();
    if (s.find_first_of(".e") == std::string::npos) s += ".0";
    return s + "f";
  }
  std::string element(const Address& a) {
    const std::string i = print(a.offset);
    return pointer(a.pointer) + "[" + i + "]";
  }
  std::string print(const Arg& a, bool integer, const std::string& primitive) {
    return std::visit(
        ir::overloaded{[&](const Reg& r) { return reg(r.id) + (r.element >= 0 ? "[" + std::to_string(r.element) + "]" : ""); },
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

  void op(const Op& o) {
    static const std::map<std::string, std::string> infix = {{"add", "+"}, {"sub", "-"}, {"mul", "*"}, {"div", "/"}, {"xor", "^"}};
    const bool integer = o.primitive.starts_with("vi_");
    std::vector<std::string> args;
    for (const Arg& a : o.args) args.push_back(print(a, integer, o.primitive));
    std::string value;
    const bool array = o.result >= 0 && p_.registers[size_t(o.result)].array > 0;
    if (array && !local_declared_.count(o.result)) declare_array(o.result);
    if (o.primitive == "copy_element") {
      line() << element(std::get<Address>(o.args[0])) << " = " << element(std::get<Address>(o.args[1])) << ";\n";
      return;
    }
    if (o.primitive == "zero_element") {
      line() << element(std::get<Address>(o.args[0])) << " = 0;\n";
      return;
    }
    if (o.primitive == "configure_tiles") {  // a constant table: every tile has rows of 64 bytes
      used.insert({"tile_config", "tile_configure", "amx_request"});
      std::string rows, bytes;
      for (const std::string& a : args) rows += (rows.empty() ? "" : ", ") + a, bytes += bytes.empty() ? "64" : ", 64";
      const std::string name = unique(local_names_, "shape");
      line() << "static const tile_config " << name << " = {1, 0, {}, {" << bytes << "}, {" << rows << "}};\n";
      line() << "tile_configure(&" << name << ");\n";
      return;
    }
    const size_t skip = array ? 1 : 0;
    if (const auto it = infix.find(o.primitive); it != infix.end()) {
      value = args[skip] + " " + it->second + " " + args[skip + 1];
    } else if (o.primitive == "copy") {
      value = args[skip];
    } else {
      used.insert(o.primitive);
      value = o.primitive + "(";
      for (size_t i = skip; i < args.size(); ++i) value += (i > skip ? ", " : "") + args[i];
      value += ")";
      // the horizontal reductions give a number
      if (o.primitive.starts_with("vf_h")) used.insert("vf_set"), value = "vf_set(" + value + ")";
      if (o.primitive.starts_with("vi_h")) used.insert("vi_set"), value = "vi_set(" + value + ")";
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
  std::set<int> local_declared_;
  void declare_array(int r) {
    local_declared_.insert(r);
    line() << (p_.registers[size_t(r)].integer ? "vi " : "vf ") << reg(r) << "[" << p_.registers[size_t(r)].array << "];\n";
  }

  std::string condition(const std::vector<Int>& all) {
    std::string s;
    for (const Int& i : all) {
      // c − x >= 0 reads better as x <= c
      std::string one;
      if (i.terms.size() == 1 && i.terms[0].second == -1)
        one = var(i.terms[0].first) + " <= " + std::to_string(i.constant);
      else if (i.terms.size() == 1 && i.terms[0].second == 1)
        one = var(i.terms[0].first) + " >= " + std::to_string(-i.constant);
      else
        one = print(i) + " >= 0";
      s += (s.empty() ? "" : " && ") + one;
    }
    return s.empty() ? "true" : s;
  }

  void body(const Body& b) {
    ++indent_;
    for (const Stmt& s : b) std::visit([&](const auto& x) { stmt(x); }, s.node);
    --indent_;
  }
  void stmt(const For& f) {
    const std::string v = var(f.var);
    line() << "for (int64_t " << v << " = " << print(f.begin) << "; " << v << " < " << print(f.end) << "; "
           << (f.step == 1 ? "++" + v : v + " += " + std::to_string(f.step)) << ") {\n";
    body(*f.body);
    line() << "}\n";
  }
  void stmt(const If& f) {
    line() << "if (" << condition(f.all_nonnegative) << ") {\n";
    body(*f.then);
    if (!f.otherwise->empty()) {
      line() << "} else {\n";
      body(*f.otherwise);
    }
    line() << "}\n";
  }
  void stmt(const LetInt& l) {
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
    line() << "const int64_t " << var(l.var) << " = " << value << ";\n";
  }
  void stmt(const LetPtr& l) {
    const Pointer& p = p_.pointers[size_t(l.pointer)];
    const Buffer& b = p_.buffers[size_t(p.buffer)];
    if (b.kind == Buffer::Kind::local) {
      line() << "alignas(64) " << c_type(b.dtype) << " " << pointer(l.pointer) << "[" << b.elements << "];\n";
      return;
    }
    line() << (b.kind == Buffer::Kind::packed || constant(b) ? "" : "") << type(b) << " const " << pointer(l.pointer) << " = t->"
           << buffer_names_[size_t(p.buffer)];
    if (l.offset != Int(0)) out_ << " + " << print(l.offset);
    out_ << ";\n";
  }
  void stmt(const Op& o) { op(o); }
  void stmt(const Call& c) {
    line() << proc_names_[size_t(c.proc)] << "(t";
    for (const Int& i : c.args) out_ << ", " << print(i);
    out_ << ");\n";
  }
  void stmt(const Comment& c) { line() << "// " << c.text << "\n"; }

  void proc(int number) {
    const Proc& q = p_.procs[size_t(number)];
    local_names_.clear(), variables_.clear(), registers_.clear(), pointers_.clear(), local_declared_.clear();
    local_names_["t"] = 1;
    out_ << "\n";
    if (!q.comment.empty()) out_ << "/// " << q.comment << "\n";
    out_ << "static void " << proc_names_[size_t(number)] << "(const tensors* t";
    for (int v : q.params) out_ << ", int64_t " << var(v);
    out_ << ") {\n";
    for (int v : q.params) { (void)v; }
    body(q.body);
    out_ << "}\n";
  }
};

std::vector<std::string> compile_flags(Simd simd, const hw::Profile& profile, const std::vector<std::string>& features) {
  std::vector<std::string> flags;
  switch (simd) {
    case Simd::avx512:
      flags = {"-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mavx2", "-mf16c", "-mbmi2", "-mprefer-vector-width=512"};
      break;
    case Simd::avx2:
      flags = {"-mavx2", "-mfma", "-mf16c", "-mbmi2"};
      break;
    case Simd::neon: {
      std::string march = "-march=armv8.2-a+fp16";
      for (const std::string& f : features) march += f == "dotprod" ? "+dotprod" : f == "bf16" ? "+bf16" : "";
      return {march};
    }
    case Simd::portable:
      return {};
  }
  for (const std::string& f : features) flags.push_back("-m" + f);
  (void)profile;
  return flags;
}

}  // namespace

Emitted emit_cpp(const ir::TensorProgram& program, const rtile::Candidate& candidate, const hw::Profile& profile,
                 const CppOptions& options) {
  const Simd simd = simd_of(profile);
  const LoopProgram loops = lower::lower(program, *candidate.program);
  if (loops.lanes != lanes(simd))
    throw Error(ErrorCode::unsupported,
                "the plan has vectors of " + std::to_string(loops.lanes * 32) + " bits, but C++ for arch '" + profile.arch +
                    "' with this isa is written in vectors of " + std::to_string(lanes(simd) * 32) + " bits: set /vector/bits to that",
                profile.name);
  Printer printer(loops);
  Emitted e;
  e.extension = ".cpp";
  e.workspace_bytes = loops.workspace_bytes;
  const std::string definitions = printer.definitions();
  std::vector<PrepackEntry> unused;
  std::ostringstream hash;
  hash << identifier(program.name) << '_' << std::hex
       << fnv1a(definitions + printer.entries("x", program.inputs.size(), program.outputs.size(), unused) + profile.hash);
  e.symbol = hash.str();
  const std::string entries = printer.entries(e.symbol, program.inputs.size(), program.outputs.size(), e.prepack);

  std::set<std::string> used = printer.used;
  used.insert("parallel_for");
  std::vector<std::string> features = prelude_features(simd, used);
  if (options.emulate_amx) std::erase_if(features, [](const std::string& f) { return f.starts_with("amx"); });
  for (const std::string& f : prelude_optional_features(simd, used))
    if (profile.has(f)) features.push_back(f);
  e.flags = compile_flags(simd, profile, features);
  const char* base[] = {"avx512", "avx2", "neon", "portable"};
  e.isa = base[int(simd)];
  for (const std::string& f : features) e.isa += "," + f;

  std::ostringstream o;
  o << "// Compile: c++ -O2 -std=c++17 -shared -fPIC";
  for (const std::string& f : e.flags) o << ' ' << f;
  o << "\n//\n// " << program.name << ", planned by rgen " RGEN_VERSION " for " << profile.title << " (" << profile.name << "), "
    << candidate.program->threads << (candidate.program->threads == 1 ? " thread" : " threads") << "\n";
  for (const ir::Stage& s : program.stages) o << "//   " << ir::print_statement(program, s) << "\n";
  o << "// " << candidate.explanation;
  std::string text = o.str();
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; ++at)
    if (at + 1 < text.size() && text.compare(at + 1, 2, "//") != 0) text.insert(at + 1, "// ");
  if (text.back() != '\n') text += '\n';
  std::ostringstream source;
  source << text << prelude_text(simd, used, options.emulate_amx) << "\n" << definitions << entries;
  e.source = source.str();
  return e;
}

}  // namespace rgen::emit
