#include <array>

#include "base/error.h"
#include "emit/backend.h"

namespace rgen::emit {

static Emitted cpp(const ir::TensorProgram& program, const rtile::Candidate& candidate, const hw::Profile& profile) {
  return emit_cpp(program, candidate, profile);
}

std::span<const Backend> backends() {
  static constexpr std::array<Backend, 2> table{{{"cpp", hw::Profile::Kind::cpu, cpp}, {"cuda", hw::Profile::Kind::gpu, emit_cuda}}};
  return table;
}

const Backend& find_backend(std::string_view target) {
  std::string known;
  for (const Backend& b : backends()) {
    if (b.target == target) return b;
    known += (known.empty() ? "" : ", ") + std::string(b.target);
  }
  throw Error(ErrorCode::unsupported, "no backend for '" + std::string(target) + "' here; there is " + known);
}

}  // namespace rgen::emit
