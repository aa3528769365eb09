// Prints the procedures of a loop program in the C family: what C++ and CUDA have in common. The entries are each backend's own.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "emit/prelude.h"
#include "lower/loop_program.h"

namespace rgen::emit {

/// Where the dialects differ.
struct Dialect {
  Simd unit;                                                         ///< whose primitives are called
  std::string_view integer = "int64_t";                              ///< of indices and offsets
  std::string_view procedure = "static void";                        ///< what a procedure's definition begins with
  std::string_view apart = "static __attribute__((noinline)) void";  ///< ... where Proc::apart
  std::string_view infinity = "__builtin_inff()", nan = "__builtin_nanf(\"\")";
  bool keeps = true;           ///< false: compilers need not be told what to keep in registers (keep, reload)
  bool shared_locals = false;  ///< CUDA: local buffers are a warp's part of shared memory
  bool threads_copy = false;   ///< CUDA: the loops of a packing are dealt out to the grid, its innermost one to a block's threads
};

class Printer {
 public:
  Printer(const lower::LoopProgram& p, const Dialect& dialect);

  std::set<std::string> used;  ///< primitives
  int64_t warp_bytes = 0;      ///< of shared memory that a warp needs for local buffers

  /// The struct of the tensors and all procedures.
  std::string definitions();
  const std::string& buffer(size_t i) const { return buffer_names_[i]; }
  const std::string& procedure(int i) const { return proc_names_[size_t(i)]; }
  static std::string type(const lower::Buffer& b);
  /// The buffers that a procedure, and those that it calls, point to.
  std::set<int> buffers_of(int proc) const;
  /// Shared memory that a block needs for the buffers that its procedure's threads share.
  int64_t block_bytes(int proc) const;

 private:
  const lower::LoopProgram& p_;
  const Dialect dialect_;
  std::ostringstream out_;
  std::vector<std::string> buffer_names_, proc_names_;
  std::map<std::string, int> local_names_;
  std::map<int, std::string> variables_, registers_, pointers_;
  int indent_ = 0;
  /// Visits each pointer's buffer of a procedure and of those that it calls.
  void for_each_buffer(int proc, const std::function<void(int)>& visit) const;
  bool dealt_out_ = false, outermost_ = false;  ///< in a packing whose loops are dealt out; at its outermost loop

  /// An identifier that hides no primitive.
  std::string free_name(const std::string& hint) const;
  static std::string unique(std::map<std::string, int>& seen, const std::string& name);
  std::ostream& line();
  std::string local(std::map<int, std::string>& names, int id, const std::string& hint);
  std::string var(int v) { return local(variables_, v, p_.variables[size_t(v)].name); }
  std::string reg(int r) { return local(registers_, r, p_.registers[size_t(r)].name); }
  std::string pointer(int p) { return local(pointers_, p, p_.pointers[size_t(p)].name); }

  std::string print(const lower::Int& i);
  bool nonnegative(const lower::Int& i) const;
  std::string literal(double d, bool integer) const;
  std::string element(const lower::Address& a);
  DType element_type(const lower::Address& a) const { return p_.buffers[size_t(p_.pointers[size_t(a.pointer)].buffer)].dtype; }
  std::string print(const lower::Arg& a, bool integer, const std::string& primitive);

  void op(const lower::Op& o);
  bool fragment_op(const lower::Op& o, const std::vector<std::string>& args);
  bool block_op(const lower::Op& o, const std::vector<std::string>& args);
  static bool in_memory(const lower::Buffer& b);
  std::string sums_, parts_;  ///< names of the fragments' arrays
  int64_t local_bytes_ = 0;   ///< of the procedure's local buffers so far
  std::set<int> local_declared_;
  void declare_array(int r);

  std::string condition(const std::vector<lower::Int>& all);
  std::string conditions(const lower::Op& o, size_t first);  // arguments from the first on; none: empty

  void body(const lower::Body& b);
  void stmt(const lower::For& f);
  static bool innermost(const lower::Body& b);
  void stmt(const lower::If& f);
  void stmt(const lower::LetInt& l);
  void stmt(const lower::LetPtr& l);
  void stmt(const lower::Op& o) { op(o); }
  void stmt(const lower::Call& c);
  void stmt(const lower::Comment& c) { line() << "// " << c.text << "\n"; }

  void proc(int number);
};

}  // namespace rgen::emit
