// The instructions of tensor cores, which come in many types and widths: pieces of the CUDA prelude, made instead of written.
#pragma once
#include <string>

namespace rgen::emit {

/// For every type: mma_mMnNkK_TYPE, one mma.sync, and mma_TYPE, a tile of 16 × 32 sums and 64 bytes of k; for N = 32, 64, …, 256
/// wgmma_TYPE_nN, the template wgmma_TYPE<N> of cuda_staging.h for that N (PTX ISA, mma.sync and wgmma.mma_async).
std::string tensor_core_pieces();

}  // namespace rgen::emit
