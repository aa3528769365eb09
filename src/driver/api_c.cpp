// The C interface: the C++ one behind opaque handles. Every exception ends in `guarded`.
#include <new>

#include "rgen/rgen.h"
#include "rgen/rgen.hpp"

struct rgen_program {
  rgen::Program value;
};
struct rgen_profile {
  rgen::Profile value;
};
struct rgen_kernel {
  rgen::Kernel value;
};

namespace {

thread_local std::string last_error;

rgen_status fail(rgen_status status, const char* message) noexcept {
  try {
    last_error = message;
  } catch (...) { last_error.clear(); }
  return status;
}

rgen_status status_of(rgen::ErrorCode code) { return rgen_status(rgen::exit_status(code)); }

template <class F>
rgen_status guarded(F&& f) noexcept {
  try {
    f();
    return RGEN_OK;
  } catch (const rgen::Error& e) { return fail(status_of(e.code()), e.what()); } catch (const std::bad_alloc&) {
    return fail(RGEN_INTERNAL, "out of memory");
  } catch (const std::exception& e) { return fail(RGEN_INTERNAL, e.what()); } catch (...) {
    return fail(RGEN_INTERNAL, "unknown exception");
  }
}

std::string text(const char* s) { return s ? s : ""; }

constexpr const char* null_argument = "an argument is NULL";

}  // namespace

extern "C" {

const char* rgen_version(void) { return RGEN_VERSION; }
const char* rgen_last_error(void) { return last_error.c_str(); }

rgen_status rgen_program_parse(const char* json, const char* name, rgen_program** program) {
  if (!json || !program) return fail(RGEN_USAGE, null_argument);
  return guarded([&] { *program = new rgen_program{rgen::Program::parse(json, "spec", text(name))}; });
}
void rgen_program_free(rgen_program* program) { delete program; }

rgen_status rgen_profile_load(const char* name_or_file, const char* cache_dir, rgen_profile** profile) {
  if (!name_or_file || !profile) return fail(RGEN_USAGE, null_argument);
  return guarded([&] { *profile = new rgen_profile{rgen::Profile::load(name_or_file, {true, text(cache_dir)})}; });
}
rgen_status rgen_profile_parse(const char* json, rgen_profile** profile) {
  if (!json || !profile) return fail(RGEN_USAGE, null_argument);
  return guarded([&] { *profile = new rgen_profile{rgen::Profile::parse(json)}; });
}
void rgen_profile_free(rgen_profile* profile) { delete profile; }

rgen_status rgen_compile(const rgen_program* program, const rgen_profile* profile, const rgen_options* options, rgen_kernel** kernel) {
  if (!program || !profile || !kernel) return fail(RGEN_USAGE, null_argument);
  return guarded([&] {
    const rgen_options o = options ? *options : rgen_options{};
    rgen::PlanOptions plan;
    plan.threads = o.threads;
    rgen::BuildOptions build;
    build.compiler = text(o.compiler);
    if (o.search_path) build.search_path = o.search_path;
    build.cache_dir = text(o.cache_dir);
    build.nvrtc = text(o.nvrtc);
    build.device = {text(o.driver), o.device};
    *kernel = new rgen_kernel{rgen::compile(program->value, profile->value, plan, build)};
  });
}
void rgen_kernel_free(rgen_kernel* kernel) { delete kernel; }

const char* rgen_kernel_manifest(const rgen_kernel* kernel) { return kernel ? kernel->value.manifest().c_str() : ""; }
int64_t rgen_kernel_workspace_bytes(const rgen_kernel* kernel) { return kernel ? kernel->value.workspace_bytes() : 0; }

int64_t rgen_kernel_prepack_bytes(const rgen_kernel* kernel, int32_t input) {
  int64_t bytes = 0;
  if (!kernel) return bytes;
  guarded([&] { bytes = kernel->value.prepack_bytes(input); });
  return bytes;
}

rgen_status rgen_kernel_prepack(const rgen_kernel* kernel, int32_t input, const void* source, void* packed) {
  if (!kernel || !source || !packed) return fail(RGEN_USAGE, null_argument);
  return guarded([&] { kernel->value.prepack(input, source, packed); });
}

rgen_status rgen_kernel_prepack_on(const rgen_kernel* kernel, int32_t input, const void* source, void* packed, void* stream) {
  if (!kernel || !source || !packed) return fail(RGEN_USAGE, null_argument);
  return guarded([&] { kernel->value.prepack(input, source, packed, stream); });
}

rgen_status rgen_kernel_launch(const rgen_kernel* kernel, void* const* args, void* workspace, void* stream) {
  if (!kernel || !args) return fail(RGEN_USAGE, null_argument);
  return guarded([&] { kernel->value.launch(args, workspace, stream); });
}

rgen_status rgen_kernel_call(const rgen_kernel* kernel, void* const* args, const int64_t* dims, void* workspace,
                             const struct rgen_threads* threads) {
  if (!kernel || !args) return fail(RGEN_USAGE, null_argument);
  if (kernel->value.on_gpu()) return fail(RGEN_USAGE, "a GPU's kernel is launched (rgen_kernel_launch), not called");
  return guarded([&] {
    if (const int code = kernel->value.call(args, workspace, threads, dims))
      throw rgen::Error(rgen::ErrorCode::device, "the kernel returned code " + std::to_string(code));
  });
}

}  // extern "C"
