// Plans that read a factor in a layout of their own, packed, copied, joined or widened, executed and compared with the f64 reference.
#include <algorithm>
#include <utility>

#include "rtile/rprogram.h"
#include "support/native_plans.h"

using namespace rgen;
using namespace rgen::test;

TEST_CASE("plans that copy an operand into another layout first") {
  const hw::Profile profile = profile_here("haswell_avx2");
  if (!runs_here(profile)) return;
  const std::vector<Problem>& problems = small_problems(RGEN_SOURCE_DIR);
  KernelBatch batch;
  for (size_t i = 0; i < problems.size(); ++i)
    for (const rtile::Candidate& c : rtile::construct(*problems[i].program, profile, {1 + int(i % 3), 60})) {
      const auto copies = [](const rtile::GroupPlan& g) { return g.group.nests.front().copies; };
      if (std::none_of(c.program->groups.begin(), c.program->groups.end(), copies)) continue;
      batch.add(problems[i], profile, c, "copying");
      break;
    }
  CHECK(batch.size() >= 5);
  check(batch, {"g++", {"-O1"}, {}, 2});
}

TEST_CASE("planes of channels: the channels innermost in a copy, narrow, wide or with its border") {
  std::vector<ProgramPtr> programs;
  for (const char* dtype : {"bf16", "s8"})
    for (const char* window :
         {R"--("ci": 37, "co": 21, "r": 3, "s": 3, "pad": 1)--", R"--("ci": 3, "co": 18, "r": 3, "s": 3, "stride": 2, "pad": 1)--",
          R"--("ci": 70, "co": 40, "r": 1, "s": 3)--", R"--("ci": 24, "co": 34, "r": 2, "s": 2, "groups": 2)--"})
      add_preset(programs, "conv2d", dtype, std::string(R"--("n": 2, "h": 9, "w": 14, "layout": "NCHW", )--") + window);
  add_preset(programs, "matmul", "bf16", R"--("m": 33, "n": 40, "k": 70, "transpose_a": true)--");
  const std::vector<Problem> layers = make_problems(programs);
  for (const hw::Profile& profile : {profile_here("haswell_avx2"), amx_profile()}) {
    const bool amx = profile.has("amx-tile");
    if (!runs_here(profile)) continue;
    KernelBatch batch;
    for (size_t i = 0; i < layers.size(); ++i)
      for (const char* copied : {"copy of X ", "copy of X_t", "copy of A"})
        add_plans(batch, layers[i], profile, 1 + int(i % 3), copied, "innermost", 3, stood_for(profile));
    CHECK(batch.size() >= 2 * layers.size());
    if (amx) CHECK(batch.mentioning("tile_dpbf16(") + batch.mentioning("tile_dpbssd(") > 0);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("few channels and the places of their row as one axis of the reduction") {
  for (const char* name : {"zen4", "sapphire_rapids"}) {
    const hw::Profile profile = std::string(name) == "zen4" ? profile_here(name) : amx_profile();
    const bool amx = profile.has("amx-tile");
    if (!runs_here(profile)) continue;
    std::vector<ProgramPtr> programs;
    for (const char* window :
         {R"--("ci": 3, "r": 3, "s": 3, "stride": 1, "pad": 1)--", R"--("ci": 3, "r": 7, "s": 7, "stride": 2, "pad": 3)--",
          R"--("ci": 3, "r": 4, "s": 4, "stride": 4, "pad": 0)--", R"--("ci": 5, "r": 2, "s": 6, "stride": 3, "pad": 2)--"}) {
      add_preset(programs, "conv2d", "bf16", std::string(R"--("n": 2, "h": 13, "w": 19, "co": 37, "out": "f32", )--") + window);
      add_preset(programs, "conv2d", "s8", std::string(R"--("n": 1, "h": 12, "w": 11, "co": 50, "out": "s32", )--") + window);
    }
    const std::vector<Problem> layers = make_problems(programs);
    KernelBatch batch;
    for (size_t i = 0; i < layers.size(); ++i)
      add_plans(batch, layers[i], profile, 1 + int(i % 3), "W_rows prepack", "joined", 3, stood_for(profile));
    CHECK(batch.size() >= 12);
    if (amx) CHECK(batch.mentioning("tile_dpbf16(") + batch.mentioning("tile_dpbssd(") > 0);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("neighbours taken apart and put together: few channels, small groups") {
  for (const char* name : {"haswell_avx2", "skylake_avx512"}) {
    const hw::Profile profile = profile_here(name);
    if (!runs_here(profile)) continue;
    std::vector<ProgramPtr> programs;
    const auto add = [&](const std::string& op, const std::string& dtype, const std::string& params) {
      add_preset(programs, op, dtype, params);
    };
    for (int s = 2; s <= int(rtile::kNeighbours); ++s) {
      const std::string few = std::to_string(s), type = s % 3 == 0 ? "bf16" : s % 3 == 1 ? "s8" : "f32";
      add("transpose", type, "\"shape\": [3, 53, " + few + "], \"perm\": [0, 2, 1]");
      add("transpose", "f32", "\"shape\": [2, " + few + ", 71], \"perm\": [0, 2, 1]");
      const std::string channels = "\"ci\": " + std::to_string(19 * s) + ", \"co\": " + std::to_string(19 * s) + ", \"groups\": 19";
      add("conv2d", s % 2 ? "f32" : "f16", "\"n\": 1, \"h\": 5, \"w\": 9, \"r\": 3, \"s\": 2, \"stride\": 1, \"pad\": 1, " + channels);
    }
    const std::vector<Problem> few = make_problems(programs);
    KernelBatch batch;
    int maps = 0, groups = 0;
    for (size_t i = 0; i < few.size(); ++i) {
      const auto plans = rtile::construct(*few[i].program, profile, {1 + int(i % 3), 200, 4});
      const auto apart = std::find_if(plans.begin(), plans.end(), [](const rtile::Candidate& c) {
        const rtile::NestPlan& n = c.program->groups.back().nests.back();
        return n.store_neighbours > 0 || std::any_of(n.operands.begin(), n.operands.end(), [](const auto& o) { return o.neighbours > 0; });
      });
      const bool map = few[i].program->name.starts_with("transpose");
      if (apart == plans.end()) continue;  // better off without
      batch.add(few[i], profile, *apart, "apart");
      (map ? maps : groups) += 1;
    }
    CHECK(maps >= 12);
    CHECK(groups >= 2);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("factors widened: bf16 and f16 to f32, bytes to s16") {
  for (const char* name : {"haswell_avx2", "zen3", "skylake_avx512"}) {
    const hw::Profile profile = profile_here(name);
    if (!runs_here(profile)) continue;
    std::vector<ProgramPtr> programs;
    for (const char* dtype : {"bf16", "f16", "s8", "u8"}) {
      for (const char* size : {"\"m\": 8, \"n\": 8, \"k\": 2", "\"m\": 13, \"n\": 37, \"k\": 41", "\"m\": 67, \"n\": 21, \"k\": 127"})
        add_preset(programs, "matmul", dtype, size);
      add_preset(programs, "conv2d", dtype,
                 "\"n\": 2, \"h\": 9, \"w\": 7, \"ci\": 11, \"co\": 19, \"r\": 3, \"s\": 3, \"stride\": 1, \"pad\": 1");
      add_preset(programs, "conv2d", dtype,
                 "\"n\": 1, \"h\": 11, \"w\": 8, \"ci\": 10, \"co\": 9, \"r\": 1, \"s\": 3, \"stride\": 2, \"pad\": 1, "
                 "\"layout\": \"NCHW\"");
    }
    const std::vector<Problem> products = make_problems(programs);
    KernelBatch batch;
    int widened = 0;
    for (size_t i = 0; i < products.size(); ++i) {
      const auto plans = rtile::construct(*products[i].program, profile, {1 + int(i % 3), 200, 4});
      const auto wide = std::find_if(plans.begin(), plans.end(), [](const rtile::Candidate& c) {
        const auto& extended = c.program->extended;
        return extended &&
               std::any_of(extended->tensors.begin(), extended->tensors.end(), [](const ir::Tensor& t) { return t.widens >= 0; });
      });
      if (wide == plans.end()) continue;  // better off as they are
      ++widened;
      batch.add(products[i], profile, *wide, "widened");
    }
    CHECK(widened >= 16);
    CHECK(batch.mentioning("vi_dpwssd(") >= 6);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("packed bytes widened where they are loaded") {
  const hw::Profile profile = profile_here("zen3");
  if (!runs_here(profile)) return;
  std::vector<ProgramPtr> programs;
  for (const char* dtype : {"s8", "u8"})
    for (const char* size : {"\"m\": 1, \"n\": 37, \"k\": 41", "\"m\": 3, \"n\": 64, \"k\": 2", "\"m\": 7, \"n\": 21, \"k\": 127",
                             "\"m\": 29, \"n\": 70, \"k\": 300"})
      add_preset(programs, "matmul", dtype, size);
  add_preset(programs, "conv2d", "s8",
             "\"n\": 2, \"h\": 9, \"w\": 7, \"ci\": 11, \"co\": 19, \"r\": 3, \"s\": 3, \"stride\": 1, \"pad\": 1");
  const std::vector<Problem> products = make_problems(programs);
  KernelBatch batch;
  for (size_t i = 0; i < products.size(); ++i) {
    const auto plans = rtile::construct(*products[i].program, profile, {1 + int(i % 3), 200});
    const auto narrow = std::find_if(plans.begin(), plans.end(), [](const rtile::Candidate& c) {
      const rtile::NestPlan& plan = c.program->groups.back().nests.back();
      return plan.form == rtile::AtomForm::group && plan.widens_b(1) && !c.program->extended->tensors.empty() &&
             std::none_of(c.program->extended->tensors.begin(), c.program->extended->tensors.end(),
                          [](const ir::Tensor& t) { return t.widens >= 0; });
    });
    REQUIRE_MESSAGE(narrow != plans.end(), products[i].program->name);
    batch.add(products[i], profile, *narrow, "narrow");
  }
  CHECK(batch.mentioning("vi_load_group_s8(") >= 5);
  CHECK(batch.mentioning("vi_load_group_u8(") == 4);
  check(batch, {"g++", {"-O1"}, {}, 2});
}

TEST_CASE("padded copies of small types: as bytes, and with signs flipped") {
  for (const char* name : {"zen4", "zen3"}) {
    const hw::Profile profile = profile_here(name);
    if (!runs_here(profile)) continue;
    std::vector<ProgramPtr> programs;
    for (const char* dtype : {"s8", "u8", "bf16", "f16"}) {
      for (const char* size : {"\"m\": 3, \"n\": 32, \"k\": 5", "\"m\": 29, \"n\": 70, \"k\": 131", "\"m\": 24, \"n\": 33, \"k\": 1024"})
        add_preset(programs, "matmul", dtype, size);
      for (const char* size : {"\"h\": 9, \"w\": 11, \"ci\": 37, \"co\": 21, \"r\": 3, \"s\": 3, \"stride\": 2, \"pad\": 1",
                               "\"h\": 5, \"w\": 40, \"ci\": 3, \"co\": 32, \"r\": 1, \"s\": 5, \"stride\": 1, \"pad\": 2"})
        add_preset(programs, "conv2d", dtype, std::string("\"n\": 2, ") + size);
    }
    const std::vector<Problem> products = make_problems(programs);
    KernelBatch batch;
    int flipped = 0;
    for (size_t i = 0; i < products.size(); ++i) {
      const auto plans = rtile::construct(*products[i].program, profile, {1 + int(i % 3), 400});
      const auto copied = std::find_if(plans.begin(), plans.end(), [](const rtile::Candidate& c) {
        const auto& operands = c.program->groups.front().nests.front().operands;
        return std::any_of(operands.begin(), operands.end(), [](const rtile::Operand& o) { return o.placement == rtile::Placement::box; });
      });
      if (copied == plans.end()) continue;
      flipped += copied->program->groups.front().nests.front().copy_flips();
      batch.add(products[i], profile, *copied, "copied");
    }
    CHECK(batch.size() >= 8);
    CHECK(batch.mentioning("vi_store_bytes(") >= 6);
    if (name == std::string("zen4")) CHECK(flipped >= 4);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("products of two activations: one of them packed in groups at every call") {
  hw::Profile portable = portable_profile();  // with the instructions whose plain versions every unit has
  hw::Atom bf16 = portable.atoms.back();
  bf16.name = "bfdot", bf16.a = bf16.b = DType::bf16, bf16.m = 1, bf16.n = 4, bf16.k = 2;
  portable.atoms.push_back(bf16);
  for (const hw::Profile& profile : {portable, flipping_profile(), profile_here("zen3"), profile_here("zen4")}) {
    if (!runs_here(profile)) continue;
    std::vector<ProgramPtr> programs;
    for (const char* dtype : {"bf16", "s8", "u8"})
      for (const char* size : {"\"m\": 19, \"n\": 37, \"k\": 23", "\"m\": 40, \"n\": 64, \"k\": 32", "\"m\": 33, \"n\": 70, \"k\": 4108",
                               "\"m\": 12, \"n\": 5, \"k\": 70"})
        for (const char* transposed : {"", ", \"transpose_b\": true"})
          add_preset(programs, "matmul", dtype, std::string("\"batch\": 3, ") + size + transposed);
    add_preset(programs, "attention", "bf16", "\"heads\": 3, \"seq\": 53, \"dim\": 18");
    const std::vector<Problem> products = make_problems(programs);
    KernelBatch batch;
    int chunked = 0, fused = 0, corrected = 0;
    for (size_t i = 0; i < products.size(); ++i) {
      const auto plans = rtile::construct(*products[i].program, profile, {1 + int(i % 3), 400, 4});
      bool done[3] = {};  // of each kind one: as it comes, in chunks, in a fused group
      for (const rtile::Candidate& c : plans)
        for (const rtile::GroupPlan& g : c.program->groups)
          for (const rtile::NestPlan& p : g.nests) {
            const int kind = !g.shared.empty() ? 2 : p.chunked() ? 1 : 0;
            if (!p.repacks_b() || std::exchange(done[kind], true)) continue;
            chunked += kind == 1, fused += kind == 2, corrected += p.offset_a;
            batch.add(products[i], profile, c, std::string("repacked") + "skf"[kind]);
          }
    }
    CHECK(batch.size() >= 10);
    CHECK(batch.mentioning("_pack_") == batch.size());
    CHECK(chunked >= 1);
    CHECK(batch.mentioning("vi_pair(") + batch.mentioning("vi_quad(") >= 6);
    MESSAGE(profile.name << ": " << chunked << " in chunks, " << fused << " fused, " << corrected << " corrected");
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("packed vectors apart, for a memory that delivers rows by turns faster, and in two streams for others") {
  for (const hw::Profile& machine : {flipping_profile(), profile_here("zen3"), profile_here("zen4")}) {
    if (!runs_here(machine)) continue;
    hw::Profile profile = with_tiny_caches(machine);
    hw::MemoryLevel& memory = profile.levels.back();
    std::vector<ProgramPtr> programs;
    for (const char* dtype : {"f32", "bf16", "s8"})
      for (const char* size : {"\"m\": 1, \"n\": 101, \"k\": 203", "\"m\": 2, \"n\": 330, \"k\": 96", "\"m\": 1, \"n\": 70, \"k\": 3001"})
        add_preset(programs, "matmul", dtype, size);
    const std::vector<Problem> products = make_problems(programs);
    KernelBatch batch;
    int corrected = 0, wide = 0;
    for (const bool several : {true, false}) {
      memory.rows = memory.row = memory.read;
      for (hw::SharedBandwidth& b : memory.row) b.gbs /= several ? 2 : 1;
      for (size_t i = 0; i < products.size(); ++i) {
        const auto plans = rtile::construct(*products[i].program, profile, {1 + int(i % 3), 200});
        const auto apart = std::find_if(plans.begin(), plans.end(), [&](const rtile::Candidate& c) {
          const rtile::NestPlan& p = c.program->groups.back().nests.back();
          return std::any_of(p.operands.begin(), p.operands.end(), [&](const rtile::Operand& o) {
            return several ? o.streams > 1 : o.streams == 2 && p.tile[size_t(p.vec)].hi > 2;
          });
        });
        if (apart == plans.end()) continue;
        corrected += apart->program->groups.back().nests.back().offset_a, wide += !several;
        batch.add(products[i], profile, *apart, "apart");
      }
    }
    CHECK(batch.size() >= 9);
    CHECK(wide >= 3);
    if (profile.name == "portable") CHECK(corrected >= 2);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}
