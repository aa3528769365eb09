#include "support/kernel_batch.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

#include "hwmodel/profile.h"
#include "run/files.h"
#include "run/layout.h"

namespace rgen::test {

namespace {

constexpr uint64_t kSeed = 20220711;

/// Any two in a row differ in both; a kernel is called in one after the other.
constexpr std::pair<const char*, const char*> kWays[kShimWays] = {
    {"round_robin", "eager"}, {"reversed", "lazy"},     {"warp_greedy_reversed", "eager"},
    {"round_robin", "lazy"},  {"warp_greedy", "eager"}, {"warp_greedy_reversed", "lazy"},
    {"reversed", "eager"},    {"warp_greedy", "lazy"}};
constexpr size_t kSaid = 200, kRecordHead = 2 + kSaid;  // of what `each_way` in the child writes

size_t bytes_of(const ir::Tensor& t) { return size_t(run::Layout(t, {}).span()) * size_t(size_of(t.dtype)); }

/// The child: reads all inputs, writes one status byte and all outputs a kernel.
constexpr const char* kDriver = R"(
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
inline int shim_calls = 0;
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
extern const size_t alignment;  // of arguments
extern const int n_ways;
extern const size_t said_bytes;

static void backwards(void*, int64_t n, void (*task)(void*, int64_t), void* arg) { while (n-- > 0) task(arg, n); }

// Ends or begins at memory that nobody may touch; the rest of its pages is a guard zone.
struct memory {
  static const size_t beyond = 1 << 20;
  unsigned char *base, *begin, *end;
  size_t pages, bytes;
  memory() : base(nullptr) {}
  void allocate(size_t n, bool at_end) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    bytes = n, pages = (n + page) / page * page;
    base = static_cast<unsigned char*>(mmap(nullptr, pages + 2 * beyond, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (base == MAP_FAILED || mprotect(base + beyond, pages, PROT_READ | PROT_WRITE) != 0) _exit(8);
    begin = base + beyond + (at_end ? pages - (n + alignment - 1) / alignment * alignment : 0), end = begin + n;
    memset(base + beyond, 0xa5, pages);
  }
  bool intact() const {
    if (!base) return true;
    for (const unsigned char* p = base + beyond; p < base + beyond + pages; ++p)
      if ((p < begin || p >= end) && *p != 0xa5) return false;
    return true;
  }
  ~memory() { if (base) munmap(base, pages + 2 * beyond); }
};

static const rgen_threads threads = {sizeof(rgen_threads), 4, nullptr, backwards};

// A kernel's arguments; inputs are there before it runs.
struct arguments {
  const kernel& q;
  memory tensors[64], packed[64], workspace;
  void* list[64];
  bool at_end;
  arguments(const kernel& of, bool where) : q(of), at_end(where) {
    for (int i = 0; i < q.n_inputs + q.n_outputs; ++i) {
      tensors[i].allocate(q.bytes[i], at_end);
      list[i] = tensors[i].begin;
    }
  }
  int pack() {
    int status = 0;
    for (int i = 0; i < q.n_inputs; ++i)
      if (q.prepack[i]) {
        packed[i].allocate(q.packed_bytes[i], at_end);
        if (q.prepack[i](list[i], packed[i].begin) != 0) status |= 1;
        list[i] = packed[i].begin;
      }
    workspace.allocate(q.workspace_bytes, at_end);
    return status;
  }
  int call(int garbage) {
    memset(workspace.begin, garbage, q.workspace_bytes);
    return q.entry(list, nullptr, q.workspace_bytes ? workspace.begin : nullptr, &threads) != 0;
  }
  int intact() const {
    bool all = workspace.intact();
    for (int i = 0; i < 64; ++i) all = all && tensors[i].intact() && packed[i].intact();
    return all ? 0 : 2;
  }
};

static size_t read_inputs(arguments& a) {
  for (int i = 0; i < a.q.n_inputs; ++i)
    if (fread(a.tensors[i].begin, 1, a.q.bytes[i], stdin) != a.q.bytes[i]) exit(9);
  size_t outputs = 0;
  for (int i = a.q.n_inputs; i < a.q.n_inputs + a.q.n_outputs; ++i) outputs += a.q.bytes[i];
  return outputs;
}

static void twice(const kernel& q, bool at_end) {
  arguments a(q, at_end);
  read_inputs(a);
  int status = a.pack() | a.call(0xff);
  memory first[64];
  for (int i = q.n_inputs; i < q.n_inputs + q.n_outputs; ++i) {
    first[i].allocate(q.bytes[i], at_end);
    memcpy(first[i].begin, a.list[i], q.bytes[i]);
    memset(a.list[i], 0xa5, q.bytes[i]);
  }
  status |= a.call(0x3c) | a.intact();
  for (int i = q.n_inputs; i < q.n_inputs + q.n_outputs; ++i)
    if (memcmp(first[i].begin, a.list[i], q.bytes[i]) != 0) status |= 4;
  const unsigned char byte = (unsigned char)status;
  fwrite(&byte, 1, 1, stdout);
  for (int i = q.n_inputs; i < q.n_inputs + q.n_outputs; ++i) fwrite(first[i].begin, 1, q.bytes[i], stdout);
  fflush(stdout);
}

// In a process of its own for each call: its status, the signal that ended it, what it said (`said_bytes`), its outputs.
static void each_way(const kernel& q) {
  arguments given(q, false);
  const size_t head = 2 + said_bytes, bytes = head + read_inputs(given);
  unsigned char* const record = static_cast<unsigned char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  FILE* const said = tmpfile();
  if (record == MAP_FAILED || !said) exit(8);
  for (int way = 0; way < n_ways; ++way) {
    memset(record, 0, bytes);
    if (ftruncate(fileno(said), 0) != 0 || lseek(fileno(said), 0, SEEK_SET) != 0) exit(8);
    const pid_t child = fork();
    if (child == 0) {
      dup2(fileno(said), 2);
      alarm(20);
      shim_calls = way;
      arguments a(q, way / 2 % 2);
      for (int i = 0; i < q.n_inputs; ++i) memcpy(a.list[i], given.list[i], q.bytes[i]);
      const int status = a.pack() | a.call(0xff) | a.intact();
      unsigned char* to = record + head;
      for (int i = q.n_inputs; i < q.n_inputs + q.n_outputs; ++i) memcpy(to, a.list[i], q.bytes[i]), to += q.bytes[i];
      record[0] = (unsigned char)status;
      _exit(0);
    }
    int ended = 0;
    if (child < 0 || waitpid(child, &ended, 0) != child) exit(8);
    record[1] = WIFSIGNALED(ended) ? (unsigned char)WTERMSIG(ended) : 0;
    if (pread(fileno(said), record + 2, said_bytes, 0) < 0) exit(8);
    fwrite(record, 1, bytes, stdout);
  }
  fclose(said);
  munmap(record, bytes);
}

int main(int argc, char**) {
  for (int k = 0; k < n_kernels; ++k)
    if (argc > 1) each_way(kernels[k]);
    else twice(kernels[k], k % 2);
  return 0;
}
)";

std::string namespace_of(size_t kernel) { return "kernel_" + std::to_string(kernel); }

/// C entries for the kernels of a CUDA program, which the shim executes. Of a kernel's two calls one copies eagerly and one lazily, under
/// different schedules; four kernels see every pair of the two.
std::string shim_entries(const emit::Emitted& code) {
  const auto tensor_map = [](const lower::TensorMap& map, const std::string& from) {
    const auto list = [](const auto& values, size_t first, int64_t scale) {
      std::string text = "{";
      for (size_t i = first; i < values.size(); ++i) text += std::to_string(values[i] * scale) + ", ";
      return text + "}";
    };
    const int bytes = size_of(map.dtype);
    return "{(const unsigned char*)(" + from + ") + " + std::to_string(map.offset * bytes) + ", " + list(map.extents, 0, 1) + ", " +
           list(map.strides, 1, bytes) + ", " + list(map.box, 0, 1) + ", " + std::to_string(map.extents.size()) + ", " +
           std::to_string(bytes) + ", " + list(map.lower, 0, 1) + ", " + list(map.upper, 0, 1) + ", " + list(map.steps, 0, 1) + ", " +
           (map.pixels() ? "1" : "0") + ", " + (map.tf32 ? "1" : "0") + "}";
  };
  std::ostringstream o;
  const auto launch = [&](const emit::Launch& l, const std::string& args) {
    o << "  {\n    void* const list[] = {" << args << "};\n    const gpu_shim::Result r = gpu_shim::launch_pointers((const void*)&"
      << l.symbol << ", " << l.grid << ", " << l.block << ", " << l.shared_bytes
      << ", list, int(sizeof list / sizeof *list), options);\n    if (!r.ok()) return fprintf(stderr, \"%s\\n\", r.error), 1;\n"
      << "    if (r.bank_conflicts) status = 1, fprintf(stderr, \"%llu bank conflicts\\n\", r.bank_conflicts);\n  }\n";
  };
  for (const emit::PrepackEntry& p : code.prepack) {
    o << "extern \"C\" int " << p.symbol << "_entry(const void* src, void* dst) {\n  const gpu_shim::Options options;\n  int status = 0;\n";
    launch(p.launch, "const_cast<void*>(src), dst");
    o << "  return status;\n}\n";
  }
  o << "extern \"C\" int " << code.symbol
    << "(void* const* args, const int64_t*, void* workspace, const void*) {\n  const gpu_shim::Options options = shim_ways[shim_calls++ % "
    << kShimWays << "];\n  int status = 0;\n";
  int maps = 0;
  for (const emit::Launch& l : code.launches) {
    std::string args;
    for (const emit::Launch::Arg& a : l.args) {
      std::string p =
          a.tensor >= 0 ? "args[" + std::to_string(a.tensor) + "]" : "static_cast<char*>(workspace) + " + std::to_string(a.workspace);
      if (a.map) o << "  gpu_shim::TensorMap map" << maps << " = " << tensor_map(*a.map, p) << ";\n", p = "&map" + std::to_string(maps++);
      args += (args.empty() ? "" : ", ") + p;
    }
    launch(l, args);
  }
  o << "  (void)workspace;\n  return status;\n}\n";
  return o.str();
}

/// `kWays` as the shim takes them.
std::string shim_ways() {
  std::string text = "inline constexpr gpu_shim::Options shim_ways[] = {";
  for (const auto& [schedule, copies] : kWays)
    text += "{gpu_shim::Schedule::" + std::string(schedule) + ", gpu_shim::Copies::" + copies + "}, ";
  return text + "};";
}

/// Every occurrence of `from` becomes `to`.
void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
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
  const std::string label =
      problem.program->name + " on " + profile.name + ", " + std::to_string(threads) + " threads, rank " + std::to_string(rank);
  add(problem, profile, candidates.back(), label, options);
}

void KernelBatch::add(const Problem& problem, const hw::Profile& profile, const rtile::Candidate& plan, const std::string& label,
                      const emit::CppOptions& options) {
  const bool gpu = profile.kind == hw::Profile::Kind::gpu;
  Kernel k{&problem, gpu ? emit::emit_cuda(*problem.program, plan, profile) : emit::emit_cpp(*problem.program, plan, profile, options),
           label};
  for (const Kernel& other : kernels_)
    if (other.code.symbol == k.code.symbol) return;
  kernels_.push_back(std::move(k));
}

bool KernelBatch::add_mutant(size_t of, const std::string& label, const std::vector<Edit>& edits) {
  Kernel k = kernels_.at(of);
  for (const Edit& e : edits) {
    const std::regex pattern(e.pattern);
    if (!std::regex_search(k.code.source, pattern)) return false;
    k.code.source = std::regex_replace(k.code.source, pattern, e.replacement);
  }
  const std::string symbol = k.code.symbol, mine = symbol + "_mutant" + std::to_string(kernels_.size());
  replace_all(k.code.source, symbol, mine);
  replace_all(k.code.symbol, symbol, mine);
  for (emit::PrepackEntry& p : k.code.prepack) replace_all(p.symbol, symbol, mine), replace_all(p.launch.symbol, symbol, mine);
  for (emit::Launch& l : k.code.launches) replace_all(l.symbol, symbol, mine);
  k.label = label;
  kernels_.push_back(std::move(k));
  return true;
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
      includes.insert({"#include <stdio.h>", "#include \"gpu_shim.h\"", "inline int shim_calls = 0;", shim_ways()});
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
         ";\nconst size_t alignment = " + std::to_string(cuda() ? emit::kCudaAlignment : 64) +
         ";\nconst int n_ways = " + std::to_string(kShimWays) + ";\nconst size_t said_bytes = " + std::to_string(kSaid) + ";\n";
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

/// Drops what asks for AVX-512 where this processor has none: kernels are to be compiled with avx512_software.h.
static bool in_software(std::vector<std::string>& flags) {
  const std::vector<std::string> isa = hw::host_isa();
  if (std::find(isa.begin(), isa.end(), "avx512f") != isa.end()) return false;
  return std::erase_if(flags, [](const std::string& f) { return f.rfind("-mavx512", 0) == 0; }) > 0;
}

std::vector<std::string> KernelBatch::build(const Toolchain& toolchain, const std::string& path) const {
  std::vector<std::string> command = kernel_flags();
  const bool software = in_software(command), emulated = software || mentioning("struct tile_file") > 0;
  command.insert(command.begin(), toolchain.compiler);
  command.insert(command.end(), toolchain.flags.begin(), toolchain.flags.end());
  const auto compile = [&](std::string source, const std::string& name) -> std::string {
    std::ofstream(path + "/" + name + ".cpp") << source;
    ProcessOptions options;
    options.timeout = std::chrono::minutes(5);
    auto argv = command;
    if (software && name != "driver") argv.insert(argv.end(), {"-include", RGEN_TEST_SUPPORT_DIR "/avx512_software.h"});
    if (emulated) argv.push_back("-Dalways_inline=noinline");  // an instruction is dozens of lines: inlined, a kernel takes GCC seconds
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
  if (const ProcessResult r = run_process(link); r.status != 0) errors.push_back("linking: " + r.err.substr(0, 3000));
  return errors;
}

ProcessResult KernelBatch::execute(const Toolchain& toolchain, const std::string& path, const std::vector<std::string>& arguments) const {
  ProcessOptions options;
  for (const Kernel& k : kernels_)
    for (size_t i = 0; i < k.problem->inputs.size(); ++i)
      options.input.append(static_cast<const char*>(k.problem->inputs[i].data()),
                           bytes_of((*k.problem->program)[k.problem->program->inputs[i]]));
  auto argv = toolchain.run_under;
  argv.push_back(path + "/kernels");
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  options.timeout = std::chrono::minutes(3);
  return run_process(argv, options);
}

size_t KernelBatch::output_bytes(const Kernel& k) {
  size_t bytes = 0;
  for (int t : k.problem->program->outputs) bytes += bytes_of((*k.problem->program)[t]);
  return bytes;
}

/// "": near the reference.
std::string KernelBatch::difference(const Kernel& k, const char* data) {
  const ir::TensorProgram& p = *k.problem->program;
  std::vector<run::Buffer> outputs;
  for (int t : p.outputs) {
    outputs.emplace_back(bytes_of(p[t]));
    std::memcpy(outputs.back().data(), data, bytes_of(p[t]));
    data += bytes_of(p[t]);
  }
  const run::Comparison c = run::compare(p, k.problem->reference, outputs);
  return c.ok ? "" : c.worst;
}

std::vector<std::string> KernelBatch::failures(const Toolchain& toolchain) const {
  const run::TemporaryFolder folder;
  std::vector<std::string> errors = build(toolchain, folder.path().string());
  if (!errors.empty()) return errors;
  const ProcessResult r = execute(toolchain, folder.path().string());
  size_t at = 0;
  for (const Kernel& k : kernels_) {
    const size_t size = 1 + output_bytes(k);
    if (at + size > r.out.size()) {
      errors.push_back(k.label + ": the child ended (status " + std::to_string(r.status) + ", signal " + std::to_string(r.signal) + ") " +
                       r.err.substr(0, 500));
      break;
    }
    const auto status = static_cast<unsigned char>(r.out[at]);
    std::string wrong;
    if (status & 1) wrong += " refused its arguments;";
    if (status & 2) wrong += " wrote outside its buffers;";
    if (status & 4) wrong += " gave two results;";
    if (const std::string d = difference(k, r.out.data() + at + 1); !d.empty()) wrong += " " + d;
    if (!wrong.empty()) errors.push_back(k.label + ":" + wrong);
    at += size;
  }
  return errors;
}

std::vector<std::array<std::string, kShimWays>> KernelBatch::survey(const Toolchain& toolchain) const {
  const run::TemporaryFolder folder;
  for (const std::string& e : build(toolchain, folder.path().string())) throw std::runtime_error(e);
  const ProcessResult r = execute(toolchain, folder.path().string(), {"each way"});
  std::vector<std::array<std::string, kShimWays>> all;
  size_t at = 0;
  for (const Kernel& k : kernels_) {
    all.emplace_back();
    for (std::string& wrong : all.back()) {
      const size_t size = kRecordHead + output_bytes(k);
      if (at + size > r.out.size()) throw std::runtime_error(k.label + ": the child ended: " + r.err.substr(0, 500));
      const char* const record = r.out.data() + at;
      if (record[1] == SIGALRM)
        wrong = "does not end";
      else if (record[1] != 0)
        wrong = "touches what is not its own (signal " + std::to_string(record[1]) + ")";
      else if (record[0] & 1)
        wrong = "refused: " + std::string(record + 2, strnlen(record + 2, kSaid));
      else if (record[0] & 2)
        wrong = "wrote outside its buffers";
      else
        wrong = difference(k, record + kRecordHead);
      at += size;
    }
  }
  return all;
}

std::string shim_way(int n) { return std::string(kWays[n].first) + ", " + kWays[n].second; }

}  // namespace rgen::test
