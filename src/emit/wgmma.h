// The widths of Hopper's asynchronous products: one instruction each, with as many registers as it has sums.
#pragma once
#include <string>

namespace rgen::emit {

/// Pieces of the CUDA prelude: wgmma_TYPE_nN for N = 32, 64, …, 256, each the template wgmma_TYPE<N> of cuda.h for that N (PTX ISA, wgmma).
std::string wgmma_pieces();

}  // namespace rgen::emit
