// Text files compiled into the library (cmake/Embed.cmake), so that nothing is read from disk at run time.
#pragma once
#include <span>
#include <string_view>

namespace rgen {

/// `name` is the file's stem ("conv2d" of ops/conv2d.json); `text` its bytes. Both live as long as the program.
struct EmbeddedFile {
  std::string_view name, text;
};

}  // namespace rgen

// Each is sorted by name.
namespace rgen::ir {
std::span<const EmbeddedFile> embedded_ops();  ///< ops/*.json
}
namespace rgen::hw {
std::span<const EmbeddedFile> embedded_profiles();  ///< hwprofiles/*.json, the schema among them as "schema"
}
namespace rgen::emit {
std::span<const EmbeddedFile> embedded_preludes();  ///< src/emit/prelude/*.h
}
