#include "support/kernel_batch.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <sstream>

#include "run/files.h"
#include "run/layout.h"
#include "support/process.h"

namespace rgen::test {

namespace {

constexpr uint64_t kSeed = 20220711;

size_t bytes_of(const ir::Tensor& t) { return size_t(run::Layout(t, {}).span()) * size_t(size_of(t.dtype)); }

/// The child: reads all inputs, writes one status byte and all outputs a kernel.
constexpr const char* kDriver = R"(
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
struct rgen_threads {
  uint32_t size; int32_t count; void* ctx;
  void (*run)(void* ctx, int64_t n, void (*task)(void* arg, int64_t i), void* arg);
};
typedef int entry_fn(void* const*, const int64_t*, void*, const void*);
typedef int prepack_fn(const void*, void*);
struct kernel {
  entry_fn* entry;
  int n_inputs, n_outputs;
  const size_t* bytes;          // of the inputs, then of the outputs
  prepack_fn* const* prepack;   // one an input, or null
  const size_t* packed_bytes;
  size_t workspace_bytes;
};
extern const kernel kernels[];
extern const int n_kernels;

static void backwards(void*, int64_t n, void (*task)(void*, int64_t), void* arg) { while (n-- > 0) task(arg, n); }

// between guard zones, on a line's boundary
struct memory {
  static const size_t guard = 256;
  unsigned char* base; size_t bytes;
  memory() : base(nullptr), bytes(0) {}
  void allocate(size_t n) {
    bytes = n;
    base = static_cast<unsigned char*>(aligned_alloc(64, (n + 2 * guard + 63) / 64 * 64));
    memset(base, 0xa5, n + 2 * guard);
  }
  unsigned char* data() const { return base + guard; }
  bool intact() const {
    for (size_t i = 0; i < guard; ++i) if (base[i] != 0xa5 || base[guard + bytes + i] != 0xa5) return false;
    return true;
  }
  ~memory() { free(base); }
};

int main() {
  static const rgen_threads threads = {sizeof(rgen_threads), 4, nullptr, backwards};
  for (int k = 0; k < n_kernels; ++k) {
    const kernel& q = kernels[k];
    const int n = q.n_inputs + q.n_outputs;
    memory tensors[64], packed[64], workspace, again[64];
    void *args[64], *second[64];
    unsigned char status = 0;
    for (int i = 0; i < n; ++i) {
      tensors[i].allocate(q.bytes[i]);
      args[i] = second[i] = tensors[i].data();
      if (i >= q.n_inputs) again[i].allocate(q.bytes[i]), second[i] = again[i].data();
      else if (fread(tensors[i].data(), 1, q.bytes[i], stdin) != q.bytes[i]) return 9;
    }
    for (int i = 0; i < q.n_inputs; ++i)
      if (q.prepack[i]) {
        packed[i].allocate(q.packed_bytes[i]);
        if (q.prepack[i](args[i], packed[i].data()) != 0) status |= 1;
        if (!packed[i].intact()) status |= 2;
        args[i] = second[i] = packed[i].data();
      }
    workspace.allocate(q.workspace_bytes);
    memset(workspace.data(), 0xff, q.workspace_bytes);
    void* space = q.workspace_bytes ? workspace.data() : nullptr;
    if (q.entry(args, nullptr, space, &threads) != 0) status |= 1;
    memset(workspace.data(), 0x3c, q.workspace_bytes);
    if (q.entry(second, nullptr, space, &threads) != 0) status |= 1;
    if (!workspace.intact()) status |= 2;
    for (int i = 0; i < n; ++i) {
      if (!tensors[i].intact() || (packed[i].base && !packed[i].intact()) || (again[i].base && !again[i].intact())) status |= 2;
      if (i >= q.n_inputs && memcmp(args[i], second[i], q.bytes[i]) != 0) status |= 4;
    }
    fwrite(&status, 1, 1, stdout);
    for (int i = q.n_inputs; i < n; ++i) fwrite(args[i], 1, q.bytes[i], stdout);
    fflush(stdout);
  }
  return 0;
}
)";

std::string namespace_of(size_t kernel) { return "kernel_" + std::to_string(kernel); }

/// C entries for the kernels of a CUDA program, which the shim executes. Of a kernel's two calls one copies eagerly and one lazily, under
/// different schedules; four kernels see every pair of the two.
std::string shim_entries(const emit::Emitted& code) {
  std::ostringstream o;
  const auto launch = [&](const emit::Launch& l, const std::string& args) {
    o << "  {\n    void* const list[] = {" << args << "};\n    const gpu_shim::Result r = gpu_shim::launch_pointers((const void*)&"
      << l.symbol << ", " << l.grid << ", " << l.block << ", " << l.shared_bytes
      << ", list, int(sizeof list / sizeof *list), options);\n    if (!r.ok()) return fprintf(stderr, \"%s\\n\", r.error), 1;\n"
      << "    if (r.bank_conflicts) return fprintf(stderr, \"%llu bank conflicts\\n\", r.bank_conflicts), 1;\n  }\n";
  };
  for (const emit::PrepackEntry& p : code.prepack) {
    o << "extern \"C\" int " << p.symbol << "_entry(const void* src, void* dst) {\n  const gpu_shim::Options options;\n";
    launch(p.launch, "const_cast<void*>(src), dst");
    o << "  return 0;\n}\n";
  }
  o << "extern \"C\" int " << code.symbol
    << "(void* const* args, const int64_t*, void* workspace, const void*) {\n  gpu_shim::Options options;\n"
    << "  options.schedule = gpu_shim::kSchedules[(shim_calls / 2 + shim_calls) % 4];\n"
    << "  options.copies = shim_calls++ % 2 ? gpu_shim::Copies::lazy : gpu_shim::Copies::eager;\n";
  for (const emit::Launch& l : code.launches) {
    std::string args;
    for (const emit::Launch::Arg& a : l.args)
      args += (args.empty() ? "" : ", ") +
              (a.tensor >= 0 ? "args[" + std::to_string(a.tensor) + "]" : "static_cast<char*>(workspace) + " + std::to_string(a.workspace));
    launch(l, args);
  }
  o << "  (void)workspace;\n  return 0;\n}\n";
  return o.str();
}

}  // namespace

std::vector<Problem> make_problems(const std::vector<ProgramPtr>& programs) {
  std::vector<Problem> problems;
  for (const ProgramPtr& p : programs) {
    Problem q{p, run::make_inputs(*p, kSeed), {}};
    std::vector<const void*> inputs;
    for (const run::Buffer& b : q.inputs) inputs.push_back(b.data());
    q.reference = ir::evaluate_reference(*p, inputs);
    problems.push_back(std::move(q));
  }
  return problems;
}

void KernelBatch::add(const Problem& problem, const hw::Profile& profile, int threads, int rank, const emit::CppOptions& options) {
  const auto candidates = rtile::construct(*problem.program, profile, {threads, rank + 1});
  const rtile::Candidate& plan = candidates.back();
  const bool gpu = profile.kind == hw::Profile::Kind::gpu;
  Kernel k{&problem, gpu ? emit::emit_cuda(*problem.program, plan, profile) : emit::emit_cpp(*problem.program, plan, profile, options), ""};
  for (const Kernel& other : kernels_)
    if (other.code.symbol == k.code.symbol) return;
  k.label = problem.program->name + " on " + profile.name + ", " + std::to_string(threads) + " threads, rank " + std::to_string(rank);
  kernels_.push_back(std::move(k));
}

const std::vector<Problem>& small_problems(const std::string& source_dir) {
  static const std::vector<Problem> all = [&] {
    auto programs = programs_in(source_dir + "/tests/data/small_workloads.json");
    for (auto& p : example_programs(source_dir)) programs.push_back(p);
    return make_problems(programs);
  }();
  return all;
}

bool available(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (std::filesystem::exists(folder + "/" + program)) return true;
  return false;
}

size_t KernelBatch::mentioning(const std::string& text) const {
  return size_t(
      std::count_if(kernels_.begin(), kernels_.end(), [&](const Kernel& k) { return k.code.source.find(text) != std::string::npos; }));
}

/// Kernels [first, last) as one translation unit: each in a namespace of its own, their includes hoisted.
std::string KernelBatch::part(size_t first, size_t last) const {
  std::set<std::string> includes;
  std::ostringstream body;
  for (size_t i = first; i < last; ++i) {
    body << "namespace " << namespace_of(i) << " {\n";
    std::istringstream lines(kernels_[i].code.source);
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("#include", 0) == 0) {
        if (line.find("omp.h") == std::string::npos) includes.insert(line);
      } else {
        body << line << '\n';
      }
    }
    if (kernels_[i].code.extension == ".cu") {
      body << shim_entries(kernels_[i].code);
      includes.insert({"#include <stdio.h>", "#include \"gpu_shim.h\"", "inline int shim_calls = 0;"});
    }
    body << "}\n";
  }
  std::string text;
  for (const std::string& line : includes) text += line + "\n";
  return text + body.str();
}

bool KernelBatch::cuda() const {
  return std::any_of(kernels_.begin(), kernels_.end(), [](const Kernel& k) { return k.code.extension == ".cu"; });
}

std::string KernelBatch::table() const {
  std::ostringstream declarations, rows;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    const ir::TensorProgram& p = *kernels_[i].problem->program;
    const emit::Emitted& code = kernels_[i].code;
    const std::string id = std::to_string(i);
    declarations << "extern \"C\" int " << code.symbol << "(void* const*, const int64_t*, void*, const void*);\nstatic const size_t bytes_"
                 << id << "[] = {";
    for (const auto* tensors : {&p.inputs, &p.outputs})
      for (int t : *tensors) declarations << bytes_of(p[t]) << ", ";
    std::vector<std::string> prepack(p.inputs.size(), "nullptr"), packed(p.inputs.size(), "0");
    declarations << "};\n";
    for (const emit::PrepackEntry& e : code.prepack) {
      const std::string entry = e.symbol + (code.extension == ".cu" ? "_entry" : "");
      declarations << "extern \"C\" int " << entry << "(const void*, void*);\n";
      prepack[size_t(e.input)] = entry, packed[size_t(e.input)] = std::to_string(e.bytes);
    }
    const auto list = [&](const std::string& type, const std::string& name, const std::vector<std::string>& all) {
      declarations << "static " << type << " " << name << id << "[] = {";
      for (const std::string& x : all) declarations << x << ", ";
      declarations << (all.empty() ? "0};\n" : "};\n");
    };
    list("prepack_fn* const", "prepack_", prepack);
    list("const size_t", "packed_", packed);
    rows << "  {" << code.symbol << ", " << p.inputs.size() << ", " << p.outputs.size() << ", bytes_" << id << ", prepack_" << id
         << ", packed_" << id << ", " << code.workspace_bytes << "},\n";
  }
  return declarations.str() + "const kernel kernels[] = {\n" + rows.str() + "};\nconst int n_kernels = " + std::to_string(kernels_.size()) +
         ";\n";
}

/// What the kernels ask of the compiler, together: each flag once, the extensions of -march joined.
std::vector<std::string> KernelBatch::kernel_flags() const {
  std::vector<std::string> flags{cuda() ? "-std=c++20" : "-std=c++17", "-w"};
  if (cuda()) flags.push_back("-I" RGEN_TEST_SUPPORT_DIR);
  std::string march;
  for (const Kernel& k : kernels_)
    for (const std::string& f : k.code.flags) {
      if (f.rfind("-march=", 0) != 0) {
        if (std::find(flags.begin(), flags.end(), f) == flags.end()) flags.push_back(f);
        continue;
      }
      std::istringstream extensions(f);
      for (std::string x; std::getline(extensions, x, '+');)
        if (("+" + march + "+").find("+" + x + "+") == std::string::npos) march += (march.empty() ? "" : "+") + x;
    }
  if (!march.empty()) flags.push_back(march);
  return flags;
}

std::vector<std::string> KernelBatch::failures(const Toolchain& toolchain) const {
  const run::TemporaryFolder folder;
  const std::string path = folder.path().string();
  std::vector<std::string> command = kernel_flags();
  command.insert(command.begin(), toolchain.compiler);
  command.insert(command.end(), toolchain.flags.begin(), toolchain.flags.end());
  const auto compile = [&](std::string source, const std::string& name) -> std::string {
    std::ofstream(path + "/" + name + ".cpp") << source;
    ProcessOptions options;
    options.timeout = std::chrono::minutes(5);
    auto argv = command;
    argv.insert(argv.end(), {"-c", "-o", path + "/" + name + ".o", path + "/" + name + ".cpp"});
    const ProcessResult r = run_process(argv, options);
    return r.status == 0 ? "" : "compiling " + name + ": " + r.err.substr(0, 3000);
  };
  const auto parts = size_t(std::max(1, toolchain.parts));
  std::vector<std::string> errors, objects;
  std::vector<std::future<std::string>> running;
  const auto wait = [&] {
    for (auto& f : running)
      if (std::string e = f.get(); !e.empty()) errors.push_back(e);
    running.clear();
  };
  for (size_t i = 0; i <= parts; ++i) {
    const std::string name = i < parts ? "part" + std::to_string(i) : "driver";
    std::string source = i < parts ? part(kernels_.size() * i / parts, kernels_.size() * (i + 1) / parts) : kDriver + table();
    running.push_back(std::async(std::launch::async, compile, std::move(source), name));
    objects.push_back(path + "/" + name + ".o");
    if (running.size() == 2) wait();
  }
  wait();
  if (cuda()) {
    std::ifstream shim(RGEN_TEST_SUPPORT_DIR "/gpu_shim.cpp");
    std::ostringstream text;
    text << shim.rdbuf();
    if (std::string e = compile(text.str(), "shim"); !e.empty()) errors.push_back(e);
    objects.push_back(path + "/shim.o");
  }
  if (!errors.empty()) return errors;
  auto link = command;
  link.insert(link.end(), {"-o", path + "/kernels"});
  link.insert(link.end(), objects.begin(), objects.end());
  if (const ProcessResult r = run_process(link); r.status != 0) return {"linking: " + r.err.substr(0, 3000)};

  std::string input;
  for (const Kernel& k : kernels_)
    for (size_t i = 0; i < k.problem->inputs.size(); ++i)
      input.append(static_cast<const char*>(k.problem->inputs[i].data()), bytes_of((*k.problem->program)[k.problem->program->inputs[i]]));
  auto argv = toolchain.run_under;
  argv.push_back(path + "/kernels");
  ProcessOptions options;
  options.input = std::move(input);
  options.timeout = std::chrono::minutes(3);
  const ProcessResult r = run_process(argv, options);

  size_t at = 0;
  for (const Kernel& k : kernels_) {
    const ir::TensorProgram& p = *k.problem->program;
    size_t size = 1;
    for (int t : p.outputs) size += bytes_of(p[t]);
    if (at + size > r.out.size()) {
      errors.push_back(k.label + ": the child ended (status " + std::to_string(r.status) + ", signal " + std::to_string(r.signal) + ") " +
                       r.err.substr(0, 500));
      break;
    }
    const auto status = static_cast<unsigned char>(r.out[at]);
    ++at;
    std::string wrong;
    if (status & 1) wrong += " refused its arguments;";
    if (status & 2) wrong += " wrote outside its buffers;";
    if (status & 4) wrong += " gave two results;";
    std::vector<run::Buffer> outputs;
    for (int t : p.outputs) {
      outputs.emplace_back(bytes_of(p[t]));
      std::memcpy(outputs.back().data(), r.out.data() + at, bytes_of(p[t]));
      at += bytes_of(p[t]);
    }
    const run::Comparison c = run::compare(p, k.problem->reference, outputs);
    if (!c.ok) wrong += " " + c.worst;
    if (!wrong.empty()) errors.push_back(k.label + ":" + wrong);
  }
  return errors;
}

}  // namespace rgen::test
