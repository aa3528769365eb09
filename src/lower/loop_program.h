// LoopProgram: what runs. Procedures of loops, integer lets, vector registers and primitive operations on buffers; regions run
// procedures in parallel. Printers (C++, LLVM, CUDA) translate it one to one.
//
//   Program ::= Buffer* Proc* Region*                 regions run one after the other, their tasks in any order
//   Proc    ::= name(int…) Body                       Body ::= Stmt*
//   Stmt    ::= For | If | LetInt | LetPtr | Op | Call | Comment
//   Int     ::= c + Σ coef·var                        affine; everything else goes through LetInt
//   Op      ::= [reg =] primitive(Arg…)               Arg ::= reg | ptr[Int] | Int | number
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/dtype.h"

namespace rgen::lower {

/// An affine integer expression of variables.
struct Int {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> terms;  ///< (variable, coefficient), sorted, no zeros
  Int(int64_t c = 0) : constant(c) {}          // NOLINT: numbers are expressions
  static Int var(int v, int64_t coef = 1) {
    Int i;
    if (coef != 0) i.terms.push_back({v, coef});
    return i;
  }
  bool is_const() const { return terms.empty(); }
  bool operator==(const Int&) const = default;
};
Int operator+(const Int& a, const Int& b);
Int operator-(const Int& a, const Int& b);
Int operator*(const Int& a, int64_t c);

struct Variable {
  std::string name;
  int64_t lo = 0, hi = 0;  ///< values it can take, both inclusive (for the bounds check)
};

/// A tensor as a GPU's copy unit takes boxes from it (TMA; CUDA driver API, cuTensorMapEncodeTiled). What a box has beyond the extents is
/// 0. A row of the box is 128 bytes, and its pieces of 16 bytes change places with the row's number: the swizzle of 128 bytes (PTX ISA,
/// "Shared Memory Matrix Layout").
struct TensorMap {
  DType dtype = DType::f16;
  int64_t offset = 0;                     ///< elements from the tensor's start
  std::vector<int64_t> extents, strides;  ///< elements; innermost first, whose stride is 1
  std::vector<int64_t> box;               ///< elements, at most 256 along each
  /// The pixels under a convolution's window (cuTensorMapEncodeIm2col): of width and height, the first place and how far the last one is
  /// from the end; steps from one to the next. The box is channels × pixels then. Empty: boxes of the tensor.
  std::vector<int64_t> lower, upper, steps;
  bool tf32 = false;  ///< floats are rounded to tf32 on their way
  bool pixels() const { return !lower.empty(); }
  static constexpr int64_t kRowBytes = 128;
};

/// Memory. Arguments come from the caller; local ones stand on the stack of the procedure that points to them; workspace is laid out at
/// `offset`, tasks' copies of it `per_task` bytes apart; shared ones are a GPU's thread block's, warp ones each warp's part of that. A map
/// is no memory, but how the copy unit sees a tensor in place of its pointer.
struct Buffer {
  std::string name;
  DType dtype = DType::f32;
  int64_t elements = 0;  ///< addressable: offsets 0 … elements−1
  enum class Kind : uint8_t { input, output, packed, workspace, local, shared, warp, map } kind = Kind::input;
  int argument = -1;       ///< position in `args` (packed: of the input it replaces; a map's: of the tensor, or −1 in the workspace)
  int64_t offset = 0;      ///< workspace, shared and warp: bytes from its start
  int64_t per_task = 0;    ///< workspace: 0 = shared, else bytes between tasks' copies; warp: bytes of a copy
  bool byte_wide = false;  ///< addressed in bytes whatever the dtype (interleaved groups)
  bool exchanged = false;  ///< a GPU's lanes read what other lanes write in the same region
  std::shared_ptr<const TensorMap> map = {};
};

/// A pointer into a buffer, hoisted out of inner loops: buffer + offset.
struct Pointer {
  int buffer = 0;
  std::string name;
};

struct Reg {
  int id;
  int element = -1;
};  ///< `element`: of a register array
struct Address {
  int pointer;
  Int offset;
};  ///< offset in elements of the pointer's buffer
using Arg = std::variant<Reg, Address, Int, double>;

struct Register {
  std::string name;
  bool integer = false;  ///< lanes are s32 instead of f32
  int array = 0;         ///< >0: an array of that many vectors (transposes)
};

struct Stmt;
using Body = std::vector<Stmt>;

struct For {
  int var;
  Int begin, end;
  int64_t step;
  std::shared_ptr<Body> body;
  enum class Unroll : uint8_t { as_compiled, never, all } unroll = Unroll::as_compiled;  ///< a GPU's compiler is told
};
struct If {
  std::vector<Int> all_nonnegative;
  std::shared_ptr<Body> then, otherwise;
};
struct LetInt {
  /// exclusive_or: of operands >= 0. uniform: `a`, which is the same in all lanes of a warp, as the compiler cannot see for itself.
  enum class Op : uint8_t { value, min, max, floor_div, floor_mod, exclusive_or, uniform } op;
  int var;
  Int a, b;
};
struct LetPtr {
  int pointer;
  Int offset;
  bool base = false;  ///< compilers should go by it to all that is addressed from it
};
/// `result` −1: an effect (store, prefetch). A result register is declared by its first definition in scope unless `assign`.
struct Op {
  std::string primitive;
  int result = -1;
  bool assign = false;
  std::vector<Arg> args;
  /// A load whose value should be used from its register, where GCC would read memory again for each of a few uses; a multiply-add whose
  /// sum should stay in its register; a constant that compilers should not see through.
  bool keep = false;
  bool element = false;  ///< a multiply-add of which one factor is an element that no other product uses
};
struct Call {
  int proc;
  std::vector<Int> args;
};
struct Comment {
  std::string text;
};
struct Stmt {
  std::variant<For, If, LetInt, LetPtr, Op, Call, Comment> node;
};

struct Proc {
  std::string name, comment;
  std::vector<int> params;  ///< variables
  Body body;
  bool apart = false;  ///< not to be inlined
};

struct Region {
  int proc;
  int64_t tasks;
  std::string comment;
  int block_tasks = 1;  ///< rtile::NestPlan::block_tasks
  int resident = 1;     ///< blocks that an SM holds for certain: the compiler may use as many registers as that leaves
  int threads = 0;      ///< > 0: a task is a block of so many threads that work together: proc(task, thread)
  int cluster = 1;      ///< neighbouring blocks that run at once and reach each other's shared memory
  int warps = 0;        ///< > 0: a task is a block of so many warps that share it: proc(task, warp)
};                      ///< proc(task)
struct Prepack {
  int input;
  int buffer_in, buffer_out;
  int proc;
  int64_t bytes;
};

struct LoopProgram {
  std::vector<Variable> variables;
  std::vector<Buffer> buffers;
  std::vector<Pointer> pointers;
  std::vector<Register> registers;
  std::vector<Proc> procs;
  std::vector<Region> regions;
  std::vector<Prepack> prepacks;
  int64_t workspace_bytes = 0;
  int lanes = 1;
  bool warps() const { return lanes == 32; }  ///< a GPU's
};

/// Registers, variables and pointers defined before use, calls well-formed. Throws Error{internal} naming the procedure.
void verify(const LoopProgram& program);

}  // namespace rgen::lower
