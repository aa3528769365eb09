#include "lower/primitives.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace rgen::lower {

namespace {

using Lanes = MemoryUse::Lanes;
using Table = std::map<std::string, std::vector<MemoryUse>, std::less<>>;

/// Loads (p [, stride] [, n | lo, hi, fill | fill, conditions…]), broadcasts (p [, fill, conditions…]) and stores (p [, stride], v [, n])
/// of one element type.
void add_typed(Table& table, DType type, const std::string& family) {
  const std::string suffix = "_" + std::string(to_string(type));
  const int bytes = size_of(type);
  const auto add = [&](const std::string& name, const std::string& ending, MemoryUse use) {
    use.dtype = type, use.bytes = bytes;
    table[family + name + suffix + ending] = {use};
  };
  add("bcast", "", {});
  add("bcast", "_if", {.conditions = 2});
  add("load", "", {.lanes = Lanes::all});
  add("load", "_if", {.lanes = Lanes::all, .conditions = 2});
  add("load", "_n", {.lanes = Lanes::count, .upper = 1});
  add("ldg", "", {.lanes = Lanes::all});
  add("ldg", "_n", {.lanes = Lanes::count, .upper = 1});
  add("load", "_range", {.lanes = Lanes::range, .lower = 1, .upper = 2});
  add("gather", "", {.lanes = Lanes::all, .stride = 1});
  add("gather", "_n", {.lanes = Lanes::count, .stride = 1, .upper = 2});
  add("gather", "_range", {.lanes = Lanes::range, .stride = 1, .lower = 2, .upper = 3});
  add("store", "", {.write = true, .lanes = Lanes::all});
  add("store", "_n", {.write = true, .lanes = Lanes::count, .upper = 2});
  add("stream", "", {.write = true, .lanes = Lanes::all});
  add("scatter", "", {.write = true, .lanes = Lanes::all, .stride = 1});
  add("scatter", "_n", {.write = true, .lanes = Lanes::count, .stride = 1, .upper = 3});
}

Table make_table() {
  Table t;
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::s8, DType::u8, DType::s16, DType::s32})
    for (const char* family : {"vf_", "vi_"}) add_typed(t, type, family);
  // groups of small elements, 4 bytes a lane
  t["vi_load_group"] = {{.bytes = 4, .lanes = Lanes::all}};
  t["vi_load_group_n"] = {{.bytes = 4, .lanes = Lanes::count, .upper = 1}};
  t["vi_load_group_s8"] = t["vi_load_group_u8"] = {{.bytes = 2, .lanes = Lanes::all}};
  t["vi_bcast_group"] = {{.bytes = 4}};
  t["vi_bcast_group_n"] = {{.bytes = 1, .lanes = Lanes::count, .upper = 1}};
  t["vi_bcast_group_of"] = {{.bytes = 1, .lanes = Lanes::count, .upper = 1, .reach = 4}};
  t["vi_load_bytes"] = t["vi_load_group"];
  t["vi_load_bytes_n"] = {{.bytes = 1, .lanes = Lanes::bytes, .upper = 1}};
  t["vf_store_pair_f16"] = t["vf_store_pair_bf16"] = {{.write = true, .bytes = 4, .lanes = Lanes::all}};
  t["vi_store_bytes"] = {{.write = true, .bytes = 4, .lanes = Lanes::all}};
  t["copy_element"] = t["copy_tf32"] = {{.address = 1}, {.write = true}};
  t["zero_element"] = {{.write = true}};
  t["tile_load"] = t["tile_stream_load"] = {{.lanes = Lanes::tile, .stride = 1}};
  t["tile_store"] = t["tile_store_early"] = {{.write = true, .lanes = Lanes::tile, .stride = 1}};
  t["prefetch_l1"] = t["prefetch_l2"] = {};
  t["stream_piece_f32"] = {};  // what it writes depends on where lines begin: the simulation's Machine::stream_piece
  // a warp's fragments: which lane touches what is checked where such kernels are executed
  t["fragment_load_a"] = t["fragment_load_a_unaligned"] = t["fragment_load_b"] = t["fragment_staged_a"] = t["fragment_staged_b"] =
      t["fragment_staged_tf32_a"] = t["fragment_staged_tf32_b"] = t["fragment_staged_f32_a"] = t["fragment_staged_f32_b"] =
          t["fragment_store_f32"] = t["fragment_store"] = t["fragment_store_pair"] = t["fragment_give"] = t["fragment_take"] =
              t["fragment_load_piece"] = t["fragment_staged_turn"] = t["cp16"] = t["cp16_part"] = t["cp4"] = {};
  t["wgmma_f16"] = t["wgmma_bf16"] = t["wgmma_s8"] = t["wgmma_tf32"] = t["bulk_copy"] = t["bulk_copy_all"] = {};
  for (const char* rank : {"2d", "3d", "4d"}) t["tensor_copy_" + std::string(rank)] = {};
  t["pixel_copy"] = {};
  for (const char* barrier : {"init", "arrive", "expect", "wait", "release"}) t["barrier_" + std::string(barrier)] = {};
  return t;
}

}  // namespace

const std::vector<MemoryUse>& memory_uses(const Op& op) {
  static const Table table = make_table();
  static const std::vector<MemoryUse> none;
  const bool addressed = std::any_of(op.args.begin(), op.args.end(), [](const Arg& a) { return std::holds_alternative<Address>(a); });
  if (!addressed) return none;
  const auto found = table.find(op.primitive);
  if (found == table.end())
    throw Error(ErrorCode::internal, "nothing is known about the memory that primitive '" + op.primitive + "' touches",
                "lower/primitives.cpp");
  return found->second;
}

}  // namespace rgen::lower
