#include "emit/names.h"

#include <cctype>
#include <set>
#include <sstream>

#include "ir/ir.h"
#include "rtile/rprogram.h"

namespace rgen::emit {

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
    case DType::s16:
      return "int16_t";
  }
  return "void";
}

std::string identifier(const std::string& s) {
  // keywords and alternative tokens of C++ ([lex.key], [lex.digraph]); what preambles and entries use
  // clang-format off
  static const std::set<std::string> taken = {
      "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char", "char16_t",
      "char32_t", "char8_t", "class", "co_await", "co_return", "co_yield", "compl", "concept", "const", "const_cast", "consteval",
      "constexpr", "constinit", "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit",
      "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new",
      "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast",
      "requires", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this",
      "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void",
      "volatile", "wchar_t", "while", "xor", "xor_eq",
      "t", "args", "dims", "workspace", "threads", "tensors", "vf", "vi", "vu", "INLINE", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t",
      "uint32_t", "int64_t", "uint64_t", "size_t", "blockIdx", "threadIdx", "blockDim", "gridDim", "kWarpBytes"};
  // clang-format on
  std::string r;
  for (char c : s) r += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (r.empty() || std::isdigit(static_cast<unsigned char>(r[0]))) r = "_" + r;
  return taken.count(r) ? r + "_" : r;
}

static uint64_t fnv1a(std::string_view s) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (char c : s) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return h;
}

std::string kernel_symbol(const ir::TensorProgram& program, const std::string& text, const hw::Profile& profile) {
  std::ostringstream o;
  o << identifier(program.name) << '_' << std::hex << fnv1a(text + profile.hash);
  return o.str();
}

std::string head_comment(const std::string& compile, const ir::TensorProgram& program, const rtile::Candidate& candidate,
                         const hw::Profile& profile) {
  std::ostringstream o;
  o << "// Compile: " << compile << "\n//\n// " << program.name << ", planned by rgen " RGEN_VERSION " for " << profile.title << " ("
    << profile.name << "), " << candidate.program->threads << (candidate.program->threads == 1 ? " thread" : " threads") << "\n";
  for (const ir::Stage& s : program.stages) o << "//   " << ir::print_statement(program, s) << "\n";
  o << "// " << candidate.explanation;
  std::string text = o.str();
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; ++at)
    if (at + 1 < text.size() && text.compare(at + 1, 2, "//") != 0) text.insert(at + 1, "// ");
  if (text.back() != '\n') text += '\n';
  return text;
}

}  // namespace rgen::emit
