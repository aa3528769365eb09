// The C++ printer: a loop program as one readable translation unit over the vector primitives of `prelude`.
#include <algorithm>
#include <set>
#include <sstream>

#include "base/error.h"
#include "emit/backend.h"
#include "emit/names.h"
#include "emit/prelude.h"
#include "emit/printer.h"
#include "lower/lower.h"

namespace rgen::emit {

using namespace lower;

namespace {

/// Plans of an AVX-512 machine may have whole vectors or halves.
Simd simd_of(const hw::Profile& p, int planned_lanes) {
  if (p.arch == "aarch64" && p.has("neon")) return Simd::neon;
  if (p.arch == "x86-64" && p.avx512) return planned_lanes == lanes(Simd::avx512vl) ? Simd::avx512vl : Simd::avx512;
  if (p.arch == "x86-64" && p.has("avx2") && p.has("fma")) return Simd::avx2;
  return Simd::portable;
}

/// Does the procedure (or one it calls) use a buffer of which every task has its own?
bool per_task(const LoopProgram& p, const Printer& printer, int proc) {
  const std::set<int> used = printer.buffers_of(proc);
  return std::any_of(used.begin(), used.end(), [&](int b) { return p.buffers[size_t(b)].per_task > 0; });
}

/// The C entries: packings, and the kernel itself.
std::string entries(const LoopProgram& p, Printer& printer, const std::string& symbol, size_t inputs, size_t outputs,
                    std::vector<PrepackEntry>& prepacks) {
  std::ostringstream o;
  for (const Prepack& q : p.prepacks) {
    const std::string name = symbol + "_prepack_" + identifier(p.buffers[size_t(q.buffer_in)].name);
    prepacks.push_back({q.input, name, q.bytes, {}});
    o << "\nextern \"C\" int " << name
      << "(const void* src, void* dst) {\n  if (!src) return 1;\n  if (!dst) return 2;\n  tensors t = {};\n"
      << "  t." << printer.buffer(size_t(q.buffer_in)) << " = static_cast<" << Printer::type(p.buffers[size_t(q.buffer_in)]) << ">(src);\n"
      << "  t." << printer.buffer(size_t(q.buffer_out)) << " = static_cast<" << Printer::type(p.buffers[size_t(q.buffer_out)])
      << ">(dst);\n"
      << "  " << printer.procedure(q.proc) << "(&t);\n  return 0;\n}\n";
  }
  const bool parallel = std::any_of(p.regions.begin(), p.regions.end(), [](const Region& r) { return r.tasks > 1; });
  o << "\n/// " << inputs << " input" << (inputs == 1 ? "" : "s") << ", then " << outputs << " output" << (outputs == 1 ? "" : "s")
    << "; returns 0, or the number of the argument it refused.\n";
  o << "extern \"C\" int " << symbol << "(void* const* args, const int64_t* /*dims*/, void* workspace, const rgen_threads* threads) {\n"
    << "  if (!args) return 1;\n  for (int i = 0; i < " << inputs + outputs << "; ++i)\n    if (!args[i]) return 2;\n";
  o << (p.workspace_bytes > 0 ? "  if (!workspace) return 3;\n" : "  (void)workspace;\n");
  if (!parallel) o << "  (void)threads;\n";
  if (printer.used.count("amx_request")) o << "  static const long refused = amx_request();\n  if (refused) return 4;\n";
  o << "  tensors t = {};\n";
  for (size_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer& b = p.buffers[i];
    if (b.kind == Buffer::Kind::local) continue;
    o << "  t." << printer.buffer(i) << " = static_cast<" << Printer::type(b) << ">(";
    if (b.kind == Buffer::Kind::workspace)
      o << "static_cast<void*>(static_cast<char*>(workspace) + " << b.offset << ")";
    else
      o << "args[" << b.argument << "]";
    o << ");\n";
  }
  for (const Region& r : p.regions) {
    const Proc& q = p.procs[size_t(r.proc)];
    if (r.tasks == 1) {
      o << "  " << printer.procedure(r.proc) << (q.params.empty() ? "(&t);\n" : "(&t, 0);\n");
      continue;
    }
    printer.used.insert("parallel_for");
    o << "  parallel_for(threads, " << r.tasks << ", [](void* p, int64_t task) { ";
    if (per_task(p, printer, r.proc)) {
      o << "\n    tensors t = *static_cast<const tensors*>(p);  // each task has its own tile buffers\n";
      for (size_t i = 0; i < p.buffers.size(); ++i)
        if (p.buffers[i].per_task > 0)
          o << "    t." << printer.buffer(i) << " += task * " << p.buffers[i].per_task / size_of(p.buffers[i].dtype) << ";\n";
      o << "    " << printer.procedure(r.proc) << "(&t, task);\n  }, &t);\n";
    } else {
      o << printer.procedure(r.proc) << "(static_cast<const tensors*>(p), task); }, &t);\n";
    }
  }
  o << "  return 0;\n}\n";
  return o.str();
}

std::vector<std::string> compile_flags(Simd simd, const hw::Profile& profile, const std::vector<std::string>& features) {
  std::vector<std::string> flags;
  switch (simd) {
    case Simd::avx512:
    case Simd::avx512vl:
      flags = {"-mavx512f",  "-mavx512bw", "-mavx512dq",
               "-mavx512vl", "-mfma",      "-mavx2",
               "-mf16c",     "-mbmi2",     "-mprefer-vector-width=" + std::to_string(32 * lanes(simd))};
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
    case Simd::cuda:
      return {};
  }
  for (const std::string& f : features) flags.push_back("-m" + f);
  (void)profile;
  return flags;
}

}  // namespace

Emitted emit_cpp(const ir::TensorProgram& program, const rtile::Candidate& candidate, const hw::Profile& profile,
                 const CppOptions& options) {
  const LoopProgram loops = lower::lower(program, *candidate.program);
  const Simd simd = simd_of(profile, loops.lanes);
  if (loops.lanes != lanes(simd))
    throw Error(ErrorCode::unsupported,
                "the plan has vectors of " + std::to_string(loops.lanes * 32) + " bits, but C++ for arch '" + profile.arch +
                    "' with this isa is written in vectors of " + std::to_string(lanes(simd) * 32) + " bits: set /vector/bits to that",
                profile.name);
  Printer printer(loops, {simd});
  Emitted e;
  e.extension = ".cpp";
  e.workspace_bytes = loops.workspace_bytes;
  const std::string definitions = printer.definitions();
  std::vector<PrepackEntry> unused;
  e.symbol =
      kernel_symbol(program, definitions + entries(loops, printer, "x", program.inputs.size(), program.outputs.size(), unused), profile);
  const std::string c_entries = entries(loops, printer, e.symbol, program.inputs.size(), program.outputs.size(), e.prepack);

  std::set<std::string> used = printer.used;
  used.insert("parallel_for");
  std::vector<std::string> features = prelude_features(simd, used);
  if (options.emulate_amx) std::erase_if(features, [](const std::string& f) { return f.starts_with("amx"); });
  for (const std::string& f : prelude_optional_features(simd, used))
    if (profile.has(f)) features.push_back(f);
  e.flags = compile_flags(simd, profile, features);
  e.isa = name_of(simd);
  for (const std::string& f : features) e.isa += "," + f;

  std::string compile = "c++ -O2 -std=c++17 -shared -fPIC";
  for (const std::string& f : e.flags) compile += ' ' + f;
  std::ostringstream source;
  source << head_comment(compile, program, candidate, profile) << prelude_text(simd, used, options.emulate_amx) << "\n"
         << definitions << c_entries;
  e.source = source.str();
  return e;
}

}  // namespace rgen::emit
