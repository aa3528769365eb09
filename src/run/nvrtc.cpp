#include "run/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "run/error_lines.h"

namespace rgen::run {

namespace fs = std::filesystem;

/// What is used of nvrtc.h.
struct Nvrtc::Functions {
  using Program = struct Opaque*;
  int (*version)(int*, int*);
  const char* (*error_text)(int);
  int (*n_archs)(int*);
  int (*archs)(int*);
  int (*create)(Program*, const char* source, const char* name, int n_headers, const char* const* headers, const char* const* names);
  int (*destroy)(Program*);
  int (*compile)(Program, int n_options, const char* const* options);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*cubin_size)(Program, size_t*);
  int (*cubin)(Program, char*);
  int (*ptx_size)(Program, size_t*);
  int (*ptx)(Program, char*);
};

namespace {

constexpr const char* remedy =
    "install the PyPI wheel nvidia-cuda-nvrtc or the CUDA toolkit and name its libnvrtc.so (RGEN_NVRTC), or take the source (--emit cuda)";
constexpr const char* file_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

[[noreturn]] void fail(const std::string& message, const std::string& context = {}) { throw Error(ErrorCode::toolchain, message, context); }

/// /usr/local/cuda-12.4 → {12, 4}
std::pair<int, int> toolkit_version(const fs::path& folder) {
  const std::string name = folder.filename();
  std::pair<int, int> v{0, 0};
  const char *at = name.data() + std::string_view("cuda-").size(), *end = name.data() + name.size();
  const auto major = std::from_chars(at, end, v.first);
  if (major.ptr < end) std::from_chars(major.ptr + 1, end, v.second);
  return v;
}

std::vector<fs::path> subfolders(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code ec;
  for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
    std::error_code not_a_folder;
    if (it->is_directory(not_a_folder)) all.push_back(it->path());
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// Where toolkits put their libraries, best first.
std::vector<fs::path> toolkit_folders() {
  std::vector<fs::path> toolkits;
  for (const fs::path& p : subfolders("/usr/local"))
    if (p.filename().string().starts_with("cuda-")) toolkits.push_back(p);
  std::sort(toolkits.begin(), toolkits.end(), [](const fs::path& a, const fs::path& b) { return toolkit_version(a) > toolkit_version(b); });
  toolkits.insert(toolkits.begin(), "/usr/local/cuda");
  std::vector<fs::path> folders;
  for (const fs::path& toolkit : toolkits) {
    folders.push_back(toolkit / "lib64");
    for (const fs::path& target : subfolders(toolkit / "targets")) folders.push_back(target / "lib");
  }
  return folders;
}

/// Never unloaded: a compiler that is loaded anew for each kernel takes 50 ms each time.
void* load(const std::string& file) { return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); }

/// Why the last load failed; it names the file.
std::string load_error() {
  const char* why = dlerror();
  return why ? why : "unknown cause";
}

std::pair<void*, std::string> find_library() {
  std::string tried, broken;
  for (const char* name : file_names) {
    if (void* library = load(name)) return {library, name};
    tried += (tried.empty() ? "" : ", ") + std::string(name);
  }
  for (const fs::path& folder : toolkit_folders()) {
    for (const char* name : file_names) {
      const fs::path file = folder / name;
      std::error_code ec;
      if (!fs::exists(file, ec)) continue;
      if (void* library = load(file)) return {library, file};
      broken += "; " + load_error();
    }
    tried += ", " + folder.string();
  }
  fail("no NVRTC: tried " + tried + broken + "; " + remedy);
}

template <class F>
void bind(void* library, const std::string& name, const char* symbol, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, symbol));
  if (!function) fail(std::string("is no NVRTC of CUDA 11.2 or later: it has no ") + symbol + "; " + remedy, name);
}

/// The digits of "sm_90a", or 0.
int arch_number(const std::string& arch) {
  if (!arch.starts_with("sm_")) return 0;
  int number = 0;
  const char* end = arch.data() + arch.size();
  const auto digits = std::from_chars(arch.data() + 3, end, number);
  const std::string_view suffix(digits.ptr, size_t(end - digits.ptr));
  return digits.ec == std::errc() && (suffix.empty() || suffix == "a" || suffix == "f") ? number : 0;
}

/// The number before `unit` in a line: "Used 14 registers", 4096 of "4096 bytes smem".
std::optional<int> number_before(const std::string& line, const std::string& unit) {
  const size_t at = line.find(" " + unit);
  if (at == std::string::npos) return std::nullopt;
  size_t begin = at;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int number = 0;
  const auto end = line.data() + at;
  return std::from_chars(line.data() + begin, end, number).ptr == end && begin < at ? std::optional(number) : std::nullopt;
}

/// The word in quotes after `label`, or "".
std::string quoted_after(const std::string& line, const std::string& label) {
  const size_t at = line.find(label + " '");
  if (at == std::string::npos) return "";
  const size_t begin = at + label.size() + 2;
  return line.substr(begin, line.find('\'', begin) - begin);
}

}  // namespace

std::vector<KernelResources> parse_resources(const std::string& log) {
  std::vector<KernelResources> all;
  KernelResources k;
  bool has_spills = false, of_kernel = false;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (const std::string symbol = quoted_after(line, "Compiling entry function"); !symbol.empty()) {
      k = {.symbol = symbol};
      has_spills = false;
    }
    if (line.find("Function properties for ") != std::string::npos) of_kernel = line.ends_with(" " + k.symbol);
    const auto stores = number_before(line, "bytes spill stores"), loads = number_before(line, "bytes spill loads");
    if (of_kernel && stores && loads) {
      k.spill_bytes = *stores + *loads;
      k.stack_bytes = number_before(line, "bytes stack frame").value_or(0);
      has_spills = true;
    }
    if (const auto registers = number_before(line, "registers"); registers && has_spills) {
      k.registers = *registers;
      k.shared_bytes = number_before(line, "bytes smem").value_or(0);
      all.push_back(std::exchange(k, {}));
      has_spills = false;
    }
  }
  return all;
}

Nvrtc::Nvrtc(void* library, const std::string& name) {
  auto f = std::make_shared<Functions>();
  bind(library, name, "nvrtcVersion", f->version);
  bind(library, name, "nvrtcGetErrorString", f->error_text);
  bind(library, name, "nvrtcGetNumSupportedArchs", f->n_archs);
  bind(library, name, "nvrtcGetSupportedArchs", f->archs);
  bind(library, name, "nvrtcCreateProgram", f->create);
  bind(library, name, "nvrtcDestroyProgram", f->destroy);
  bind(library, name, "nvrtcCompileProgram", f->compile);
  bind(library, name, "nvrtcGetProgramLogSize", f->log_size);
  bind(library, name, "nvrtcGetProgramLog", f->log);
  bind(library, name, "nvrtcGetCUBINSize", f->cubin_size);
  bind(library, name, "nvrtcGetCUBIN", f->cubin);
  bind(library, name, "nvrtcGetPTXSize", f->ptx_size);
  bind(library, name, "nvrtcGetPTX", f->ptx);

  int major = 0, minor = 0, n = 0;
  if (f->version(&major, &minor) != 0 || f->n_archs(&n) != 0 || n < 1) fail("does not tell its version and architectures", name);
  archs_.resize(size_t(n));
  f->archs(archs_.data());
  std::sort(archs_.begin(), archs_.end());
  version_ = std::to_string(major) + "." + std::to_string(minor);
  Dl_info info{};
  path_ = dladdr(reinterpret_cast<void*>(f->version), &info) && info.dli_fname ? info.dli_fname : name;
  // 177: a declared variable is never used, which generated sources may do.
  flags_ = {"--std=c++17", "--diag-suppress=177", "--ptxas-options=-v"};
  functions_ = std::move(f);
}

std::shared_ptr<const Nvrtc> Nvrtc::open(const NvrtcOptions& options) {
  if (options.library.empty()) {
    const auto [library, name] = find_library();
    return std::shared_ptr<const Nvrtc>(new Nvrtc(library, name));
  }
  void* library = load(options.library);
  if (!library) fail("no NVRTC: " + load_error() + "; " + remedy);
  return std::shared_ptr<const Nvrtc>(new Nvrtc(library, options.library));
}

void Nvrtc::require_arch(const std::string& arch) const {
  const int number = arch_number(arch);
  if (std::find(archs_.begin(), archs_.end(), number) != archs_.end()) return;
  std::string message = "NVRTC " + version_ + " has no architecture '" + arch + "'; it has";
  for (const int a : archs_) message += (a == archs_.front() ? " sm_" : ", sm_") + std::to_string(a);
  constexpr int oldest_of_nvrtc_12 = 50;
  if (number >= oldest_of_nvrtc_12 && number < archs_.front())
    message += "; an NVRTC 12 has '" + arch + "' (the PyPI wheel nvidia-cuda-nvrtc-cu12)";
  else if (number > archs_.back())
    message += "; a newer NVRTC may have '" + arch + "'";
  fail(message, path_);
}

DeviceCode Nvrtc::compile(const std::string& source, const std::string& name, const std::string& arch, DeviceImage kind,
                          const std::vector<std::string>& extra_flags) const {
  const auto start = std::chrono::steady_clock::now();
  require_arch(arch);
  const Functions& f = *functions_;
  const bool cubin = kind == DeviceImage::cubin;
  // A virtual architecture stops before ptxas.
  std::vector<std::string> flags = {"--gpu-architecture=" + (cubin ? arch : "compute_" + arch.substr(3))};
  flags.insert(flags.end(), flags_.begin(), flags_.end());
  flags.insert(flags.end(), extra_flags.begin(), extra_flags.end());
  std::vector<const char*> options;
  for (const std::string& flag : flags) options.push_back(flag.c_str());

  struct Owner {
    const Functions& f;
    Functions::Program program = nullptr;
    ~Owner() {
      if (program) f.destroy(&program);
    }
  } owner{f};
  const auto check = [&](int result) {
    if (result != 0) fail("NVRTC " + version_ + ": " + f.error_text(result), name);
  };
  const auto text = [&](int (*size_of)(Functions::Program, size_t*), int (*get)(Functions::Program, char*)) {
    size_t size = 0;
    check(size_of(owner.program, &size));
    std::string s(size, '\0');
    if (size > 0) check(get(owner.program, s.data()));
    return s;
  };
  const auto without_nul = [](std::string s) {
    while (!s.empty() && s.back() == '\0') s.pop_back();
    return s;
  };

  check(f.create(&owner.program, source.c_str(), name.c_str(), 0, nullptr, nullptr));
  const int result = f.compile(owner.program, int(options.size()), options.data());
  DeviceCode code;
  code.log = without_nul(text(f.log_size, f.log));
  if (result != 0)
    fail("NVRTC " + version_ + " for " + arch + ": " + f.error_text(result) + error_lines(code.log, {"error:", "error   :", "fatal"}),
         name);
  code.image = cubin ? text(f.cubin_size, f.cubin) : without_nul(text(f.ptx_size, f.ptx));
  if (code.image.empty()) fail("NVRTC " + version_ + " for " + arch + ": no output", name);
  if (cubin) code.kernels = parse_resources(code.log);
  code.compile_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return code;
}

}  // namespace rgen::run
