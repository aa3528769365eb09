#include "run/host_compiler.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "run/cache.h"
#include "run/error_lines.h"
#include "run/files.h"
#include "run/process.h"

namespace rgen::run {

namespace fs = std::filesystem;

namespace {

bool executable(const fs::path& p) {
  std::error_code ec;
  return fs::is_regular_file(p, ec) && access(p.c_str(), X_OK) == 0;
}

std::optional<fs::path> locate(const std::string& name, const std::string& search_path) {
  if (name.find('/') != std::string::npos) {
    const fs::path p = fs::absolute(name);
    return executable(p) ? std::optional(p) : std::nullopt;
  }
  std::istringstream folders(search_path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const fs::path p = fs::absolute(folder.empty() ? "." : folder) / name; executable(p)) return p;
  return std::nullopt;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Why the compiler failed. Paths of the temporary folder, which nobody can open any more, are cut to the file's name.
std::string reasons(std::string text, const fs::path& folder) {
  const std::string prefix = folder.string() + "/";
  for (size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
  return error_lines(text, {"error:", "undefined reference", "No space left"});
}

std::string outcome(const ProcessResult& r) {
  if (r.signal) return "was killed by signal " + std::to_string(r.signal) + " (" + strsignal(r.signal) + ")";
  return "exit status " + std::to_string(r.exit_code);
}

/// Whether a shared library with a parallel region links: many clang installations lack libomp.
bool links_openmp(const std::string& compiler) {
  static const std::string probe =
      "#include <omp.h>\n"
      "extern \"C\" int rgen_probe(void) {\n"
      "  int n = 0;\n"
      "#pragma omp parallel for reduction(+ : n)\n"
      "  for (int i = 0; i < 4; ++i) n += omp_get_num_threads() > 0;\n"
      "  return n;\n"
      "}\n";
  const TemporaryFolder folder;
  const fs::path source = folder.path() / "probe.cpp", output = folder.path() / "probe.so";
  write_atomically(source, probe);
  return run_process({compiler, "-fopenmp", "-shared", "-fPIC", "-o", output, source}).ok() && fs::exists(output);
}

/// What identifies a compiler's binary without running it.
std::string identity(const fs::path& compiler) {
  struct stat st = {};
  const fs::path real = fs::canonical(compiler);
  if (stat(real.c_str(), &st) != 0) return compiler.string();
  std::ostringstream id;
  id << compiler.string() << '\n' << real.string() << '\n' << st.st_size << '\n' << st.st_mtim.tv_sec << '.' << st.st_mtim.tv_nsec;
  return id.str();
}

/// One fact a line; the last line is the hash of those before it.
std::string print_memo(const Compiler& c) {
  const std::string facts = c.version + "\n" + (c.clang ? "clang" : "gcc") + "\n" + (c.openmp ? "openmp" : "no openmp") + "\n";
  return facts + content_hash(facts) + "\n";
}

std::optional<Compiler> parse_memo(const std::string& path, const std::string& text) {
  std::istringstream in(text);
  std::string version, family, openmp, hash;
  if (!std::getline(in, version) || !std::getline(in, family) || !std::getline(in, openmp) || !std::getline(in, hash)) return std::nullopt;
  if (hash != content_hash(version + "\n" + family + "\n" + openmp + "\n")) return std::nullopt;
  return Compiler{path, version, family == "clang", openmp == "openmp"};
}

Compiler inspect(const std::string& path) {
  const ProcessResult r = run_process({path, "--version"});
  if (!r.ok()) throw Error(ErrorCode::toolchain, "'--version' " + outcome(r) + reasons(r.output, "/"), path);
  Compiler c{path, first_line(r.output), r.output.find("clang") != std::string::npos, false};
  c.openmp = links_openmp(path);
  return c;
}

}  // namespace

Compiler find_compiler(const std::string& preferred, const std::string& search_path, const fs::path& memory) {
  const std::vector<std::string> names = preferred.empty() ? std::vector<std::string>{"c++", "g++", "clang++"} : std::vector{preferred};
  std::optional<fs::path> found;
  for (const std::string& name : names)
    if ((found = locate(name, search_path))) break;
  if (!found) {
    std::string tried;
    for (const std::string& name : names) tried += (tried.empty() ? "'" : ", '") + name + "'";
    throw Error(ErrorCode::toolchain,
                "no C++ compiler: looked for " + tried + " in \"" + search_path + "\"; install g++ or clang++, or name one");
  }
  if (memory.empty()) return inspect(*found);

  const fs::path memo = memory / ("compiler-" + content_hash(identity(*found)));
  if (const auto text = read_file(memo))
    if (auto c = parse_memo(*found, *text)) return *c;
  const Compiler c = inspect(*found);
  std::error_code ec;
  fs::create_directories(memory, ec);
  try {
    write_atomically(memo, print_memo(c));
  } catch (const Error&) {  // only a memory: without it the next call probes again
  }
  return c;
}

void compile(const Compiler& compiler, const std::string& source, const std::vector<std::string>& flags, Output kind,
             const fs::path& output) {
  const TemporaryFolder folder;
  const fs::path input = folder.path() / (output.stem().string() + ".cpp"), result = folder.path() / "result";
  write_atomically(input, source);

  std::vector<std::string> argv = {compiler.path};
  argv.insert(argv.end(), flags.begin(), flags.end());
  if (kind == Output::shared_library)
    argv.insert(argv.end(), {"-shared", "-fPIC"});
  else
    argv.insert(argv.end(), {"-c", "-fPIC"});
  argv.insert(argv.end(), {"-o", result, input});

  const ProcessResult r = run_process(argv);
  if (!r.ok())
    throw Error(ErrorCode::toolchain, output.filename().string() + ": " + outcome(r) + reasons(r.output, folder.path()), compiler.path);
  const auto content = read_file(result);
  if (!content || content->empty()) throw Error(ErrorCode::toolchain, output.filename().string() + ": wrote no output", compiler.path);
  write_atomically(output, *content);
}

}  // namespace rgen::run
