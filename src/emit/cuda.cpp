// CUDA C++: a warp is a vector of 32 lanes, and every task of a region is a warp's. The procedures are those of the loop program; what
// is here is how they become kernels.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/math.h"
#include "emit/backend.h"
#include "emit/names.h"
#include "emit/prelude.h"
#include "emit/printer.h"
#include "lower/lower.h"
#include "rtile/rprogram.h"

namespace rgen::emit {

using namespace lower;

namespace {

constexpr int kCopyThreads = 128;  // of a packing's blocks

/// Indices are 32 bits wide where every offset is: 64-bit arithmetic takes several instructions.
bool narrow_indices(const LoopProgram& p) {
  const int64_t most = std::numeric_limits<int32_t>::max() / 8;
  return std::all_of(p.buffers.begin(), p.buffers.end(), [&](const Buffer& b) { return b.elements < most; }) &&
         std::all_of(p.regions.begin(), p.regions.end(), [&](const Region& r) { return r.tasks < most / 32; });
}

class Kernels {
 public:
  Kernels(const LoopProgram& p, Printer& printer, std::string_view integer) : p_(p), printer_(printer), integer_(integer) {}

  std::string print(const std::string& symbol, Emitted& e) {
    std::string text;
    for (const Prepack& q : p_.prepacks) text += packing(symbol, q, e);
    for (size_t i = 0; i < p_.regions.size(); ++i) text += kernel(symbol + "_k" + std::to_string(i), p_.regions[i], e);
    return text;
  }

 private:
  const LoopProgram& p_;
  Printer& printer_;
  const std::string_view integer_;

  bool in_warp(int b) const { return p_.buffers[size_t(b)].kind == Buffer::Kind::warp; }
  std::string parameter(int b) const {  // what lanes exchange through memory must not look untouched by others
    const Buffer& buffer = p_.buffers[size_t(b)];
    if (buffer.kind == Buffer::Kind::map) {
      printer_.used.insert("tensor_map");
      return "const __grid_constant__ tensor_map " + printer_.buffer(size_t(b));
    }
    return Printer::type(buffer) + (buffer.exchanged ? " " : " __restrict__ ") + printer_.buffer(size_t(b));
  }
  /// Bytes of a warp's tile buffers.
  int64_t warp_bytes(const std::set<int>& used) const {
    int64_t bytes = 0;
    for (int b : used)
      if (in_warp(b)) bytes = std::max(bytes, p_.buffers[size_t(b)].offset + p_.buffers[size_t(b)].per_task);
    return bytes;
  }
  /// `behind`: the bytes of shared memory that all warps share.
  std::string tensors(const std::set<int>& used, int64_t behind = 0) const {
    std::string text = "  tensors t = {};\n";
    for (int b : used)
      if (in_warp(b))
        text += "  t." + printer_.buffer(size_t(b)) + " = reinterpret_cast<" + Printer::type(p_.buffers[size_t(b)]) +
                ">(shared_base() + threadIdx.x / 32 * " + std::to_string(warp_bytes(used)) + " + " +
                std::to_string(behind + p_.buffers[size_t(b)].offset) + ");\n";
      else if (p_.buffers[size_t(b)].kind == Buffer::Kind::map)
        text += "  t." + printer_.buffer(size_t(b)) + " = &" + printer_.buffer(size_t(b)) + ";\n";
      else  // the alignment lets the compiler merge loads of neighbours
        text += "  t." + printer_.buffer(size_t(b)) + " = static_cast<" + Printer::type(p_.buffers[size_t(b)]) +
                ">(__builtin_assume_aligned(" + printer_.buffer(size_t(b)) + ", " + std::to_string(kCudaAlignment) + "));\n";
    return text;
  }
  static std::string signature(const std::string& name, int threads, int resident, const std::string& parameters, int cluster = 1) {
    return "\nextern \"C\" __global__ void " + (cluster > 1 ? "__cluster_dims__(" + std::to_string(cluster) + ", 1, 1) " : "") +
           "__launch_bounds__(" + std::to_string(threads) + ", " + std::to_string(std::max(1, resident)) + ") " + name + "(" + parameters +
           ") {\n";
  }

  std::string packing(const std::string& symbol, const Prepack& q, Emitted& e) {
    const std::string name = symbol + "_prepack_" + identifier(p_.buffers[size_t(q.buffer_in)].name);
    int64_t blocks = 1;  // iterations of the outermost loop
    for (const Stmt& s : p_.procs[size_t(q.proc)].body)
      if (const For* f = std::get_if<For>(&s.node)) blocks = std::max(blocks, ceil_div(f->end.constant - f->begin.constant, f->step));
    e.prepack.push_back({q.input, name, q.bytes, {name, std::min<int64_t>(blocks, 65535), kCopyThreads, 0, {}}});
    return signature(name, kCopyThreads, 1, parameter(q.buffer_in) + ", " + parameter(q.buffer_out)) +
           tensors({q.buffer_in, q.buffer_out}) + "  " + printer_.procedure(q.proc) + "(&t);\n}\n";
  }

  std::string kernel(const std::string& name, const Region& r, Emitted& e) {
    const std::set<int> used = printer_.buffers_of(r.proc);
    const bool together = r.threads > 0 || r.warps > 0;
    const int warps = r.threads > 0 ? r.threads / 32 : r.warps > 0 ? r.warps : int(std::min<int64_t>(r.block_tasks, r.tasks));
    const int64_t of_warp = warp_bytes(used), of_block = printer_.block_bytes(r.proc);
    const int64_t shared = r.warps > 0 || of_warp > 0 ? of_block + of_warp * warps : std::max(printer_.warp_bytes * warps, of_block);
    Launch launch{name, together ? r.tasks : ceil_div(r.tasks, warps), 32 * warps, shared, {}, r.cluster};
    std::string parameters;
    for (int b : used) {
      const Buffer& buffer = p_.buffers[size_t(b)];
      if (in_warp(b)) continue;
      parameters += (parameters.empty() ? "" : ", ") + parameter(b);
      const bool in_workspace = buffer.argument < 0;
      launch.args.push_back({in_workspace ? -1 : buffer.argument, in_workspace ? buffer.offset : -1, buffer.map});
    }
    std::string text = signature(name, launch.block, r.resident, parameters, r.cluster) + tensors(used, of_block);
    if (together) {
      text += "  " + printer_.procedure(r.proc) + "(&t, blockIdx.x, threadIdx.x" + (r.warps > 0 ? " / 32" : "") + ");\n}\n";
      e.launches.push_back(std::move(launch));
      return text;
    }
    const bool numbered = !p_.procs[size_t(r.proc)].params.empty();
    if (r.tasks > 1) {
      text += "  const " + std::string(integer_) +
              " task = " + (warps > 1 ? "blockIdx.x * " + std::to_string(warps) + " + threadIdx.x / 32" : "blockIdx.x") + ";\n";
      if (r.tasks % warps) text += "  if (task >= " + std::to_string(r.tasks) + ") return;  // a whole warp\n";
    }
    text += "  " + printer_.procedure(r.proc) + (!numbered ? "(&t);\n" : r.tasks > 1 ? "(&t, task);\n" : "(&t, 0);\n") + "}\n";
    e.launches.push_back(std::move(launch));
    return text;
  }
};

}  // namespace

std::string cuda_arch(const hw::Profile& profile) { return profile.arch + (profile.has("wgmma") ? "a" : ""); }

Emitted emit_cuda(const ir::TensorProgram& program, const rtile::Candidate& candidate, const hw::Profile& profile) {
  const LoopProgram loops = lower::lower(program, *candidate.program);
  if (loops.lanes != lanes(Simd::cuda))
    throw Error(ErrorCode::unsupported, "CUDA kernels are written for warps of 32: set /vector/bits to 1024", profile.name);
  Dialect dialect{Simd::cuda};
  dialect.integer = narrow_indices(loops) ? "int" : "int64_t";
  dialect.procedure = dialect.apart = "INLINE void";
  dialect.infinity = "__int_as_float(0x7f800000)", dialect.nan = "__int_as_float(0x7fffffff)";
  dialect.threads_copy = dialect.shared_locals = true, dialect.keeps = false;
  Printer printer(loops, dialect);
  Emitted e;
  e.extension = ".cu";
  e.workspace_bytes = loops.workspace_bytes;
  const std::string definitions = printer.definitions();
  const auto kernels = [&](const std::string& symbol, Emitted& into) {
    return Kernels(loops, printer, dialect.integer).print(symbol, into);
  };
  Emitted unused;
  e.symbol = kernel_symbol(program, definitions + kernels("x", unused), profile);
  const std::string text = kernels(e.symbol, e);
  e.isa = profile.arch;
  e.source =
      head_comment("nvcc -arch=" + cuda_arch(profile) + " -std=c++17 -cubin", program, candidate, profile) +
      prelude_text(Simd::cuda, printer.used) + "\n" +
      (printer.warp_bytes > 0 ? "constexpr int kWarpBytes = " + std::to_string(printer.warp_bytes) + ";  // of shared memory\n" : "") +
      definitions + text;
  return e;
}

}  // namespace rgen::emit
