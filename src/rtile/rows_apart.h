// Rows that pass by once, taken by turns from places far apart. One row after the other is one stream, which waits at the end of each page
// (of 4 KiB, most often); neighbouring rows by turns are streams that end with their rows. Rows that are parts of the tensor apart are
// streams which go on through the whole tensor, several pages under way at any time: sums over rows of 16, 6 and 1.6 KB by fours read 24,
// 32 and 48 GB/s of small pages where one row after the other reads 17, 27 and 40 and four neighbours 20, 23 and 26; of large pages 30, 53
// and 60 where those read 33, 44 and 56, and 30, 28 and 31 (Zen 4). Sums of columns of 4, 6 and 1 KB rows take 0.6, 0.7 and 0.3 of the
// time of eight neighbouring rows by turns.
#pragma once
#include <optional>
#include <vector>

#include "hwmodel/profile.h"
#include "rtile/nest.h"
#include "rtile/residence.h"

namespace rgen::rtile {

/// The nests with an axis over rows as two: places in a part, and parts (NestAxis::apart, the last axis), and the program with the
/// dimensions of the tensors along it as two: the same bytes. Nothing if no nest reduces rows that come from memory and are read once, or
/// their columns, if it would run tile by tile with others (plan_fused.cpp: they ask for lines ahead), or if the rows cannot be divided.
/// Pre: `nests` are those of the program, and `residence` its.
std::optional<Rewritten> rows_apart(const ir::TensorProgram& program, const std::vector<Nest>& nests, const Residence& residence,
                                    const hw::Profile& profile);

}  // namespace rgen::rtile
