// What each primitive operation does to memory: the table behind the checks that run a loop program without its data.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "lower/loop_program.h"

namespace rgen::lower {

/// One access of memory. Positions count arguments from the operation's first address; −1: not an argument.
struct MemoryUse {
  enum class Lanes : uint8_t {
    one,    ///< one element
    all,    ///< as many as a vector of the program has
    count,  ///< those before `upper`
    bytes,  ///< as many bytes as `upper` says, at most a vector's
    range,  ///< those in [lower, upper), clamped to the vector
    tile,   ///< 64 bytes for every row of the tile register that the argument before names, rows `stride` bytes apart
  };
  bool write = false;
  int address = 0;
  std::optional<DType> dtype = {};  ///< of an element; none: that of the buffer
  int bytes = 0;                    ///< of one lane; 0: of the buffer's element
  Lanes lanes = Lanes::one;
  int stride = -1;  ///< elements between lanes (tile: bytes between rows); −1: neighbours
  int lower = -1, upper = -1;
  int reach = 0;        ///< bytes from the first on that must be there, written or not, since nothing depends on the rest
  int conditions = -1;  ///< all arguments from here on; nothing is touched where one of them is negative
};

/// The accesses of an operation; empty for arithmetic, which takes no address, and for prefetches.
/// Throws Error{internal} for a primitive that takes an address but is not in the table.
const std::vector<MemoryUse>& memory_uses(const Op& op);

}  // namespace rgen::lower
