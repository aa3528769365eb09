// What form staged costs a GPU: copies to shared memory, products, epilogue; bytes from L2 and from memory.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "rtile/staged.h"

namespace rgen::rtile {

namespace {

/// The extents that `rows` neighbouring points of the row axes cover, and `columns` of the vector axis.
std::vector<int64_t> covered(const Nest& nest, const NestPlan& plan, int64_t rows, int64_t columns, int64_t batch) {
  std::vector<int64_t> e;
  for (const NestAxis& a : nest.axes) e.push_back(a.reduced ? a.extent : 1);
  const auto fill = [&](const std::vector<int>& axes, int64_t points) {
    for (size_t i = axes.size(); i-- > 0;) {
      int64_t& x = e[size_t(axes[i])];
      x = std::min(nest.axes[size_t(axes[i])].extent, points);
      points = ceil_div(points, x);
    }
  };
  fill(plan.staging->row_axes, rows);
  fill(plan.staging->batch_axes, batch);
  e[size_t(plan.vec)] = std::min(nest.axes[size_t(plan.vec)].extent, columns);
  return e;
}

/// A block in numbers.
struct Shape {
  int64_t steps, rows, columns;    ///< of k; of sums
  int64_t k_extent, k_steps;       ///< along the axis of k; its steps
  double warps, copying;           ///< that multiply a task; that copy: others or the same
  double all;                      ///< of the block
  double row_tiles, column_tiles;  ///< of 16 rows and 32 columns, a multiplying warp's
  struct Copied {
    double copies = 0, rows = 0;  ///< a copying thread's, a step; rows that they are of, each with a pointer
    double waiting = 0;           ///< registers in which it is on its way
  } a, b;                         ///< a bulk copy is nobody's
  double blocks;                  ///< of the launch
  double finished;                ///< share of the task's sums that a block finishes
  double used_rows;               ///< share of the rows that are in the matrix
  double in_line;                 ///< share of the results that leave column by column (Staging::line)
  bool packed;                    ///< the columns' factor
  double vectors() const { return 16 * row_tiles * column_tiles; }  ///< of results, a multiplying warp's
};
Shape::Copied copied(Staging::Copies how, double rows, double threads) {
  switch (how) {
    case Staging::Copies::pieces:
      return {rows * 4 / threads, rows * 4 / threads};
    case Staging::Copies::along_k:  // twice 8 of a row's 16
      return {rows * 16 / threads, rows * 8 / threads};
    case Staging::Copies::turned:  // a load, four stores, and what chooses their order
      return {rows * 4 / threads * 5, rows * 4 / threads, rows * 4 / threads * 4};
    case Staging::Copies::along_rows:
      return {rows * 16 / threads, std::max(1.0, rows / threads)};
  }
  return {};
}
Shape shape_of(const Nest& nest, const NestPlan& plan) {
  const Staging& s = *plan.staging;
  Shape b{};
  b.k_extent = nest.axes[size_t(plan.k_axis)].extent, b.k_steps = plan.steps_along(nest, plan.k_axis);
  b.steps = plan.k_steps(nest) / s.parts, b.rows = s.block_rows(), b.columns = plan.block_columns();
  b.warps = s.task_warps(), b.all = s.warps() + s.producers(), b.copying = s.producers() ? s.producers() : s.warps();
  b.row_tiles = double(s.row_tiles()), b.column_tiles = double(plan.column_tiles());
  b.blocks = double(plan.tasks()) * s.parts, b.finished = 1 / std::min<double>(s.parts, b.row_tiles * b.column_tiles);
  b.packed = plan.operands[size_t(plan.operand_b)].placement == Placement::prepack;
  if (!s.tensor_copies) b.a = copied(s.copies_a, double(b.rows), 32 * b.copying);
  if (!s.tensor_copies && !(s.producers() && b.packed)) b.b = copied(s.copies_b, double(b.columns), 32 * b.copying);
  const double across = s.line % Staging::kOfLine == 0 ? 0 : double(Staging::kOfLine - 1) / double(s.line);
  b.in_line = s.line == 1 ? 0 : 1 - across;  // rows across the end of a line leave one by one
  b.used_rows = s.ends_inside() ? 1 : std::min(1.0, double(s.rows.extent) / double(s.rows.blocks * b.rows));
  return b;
}

/// What one step of k costs a warp, by who multiplies.
struct Step {
  double wavefronts;    ///< of 128 bytes, read from the stage
  double instructions;  ///< products, and loads of their factors
  double registers;     ///< for the factors
};
Step step_of(Staging::Unit unit, const Shape& b) {
  const double products = b.row_tiles * b.column_tiles, both = b.row_tiles + b.column_tiles;
  switch (unit) {
    case Staging::Unit::warp:
      return {8 * b.row_tiles + 16 * b.column_tiles, 8 * products + 2 * b.row_tiles + 4 * b.column_tiles, 8 * b.row_tiles + 16};
    case Staging::Unit::group:  // 64 rows meet all columns at once, for four warps
      return {b.row_tiles * (64 + double(b.columns)) / 2 / 4, 2 * b.row_tiles + 4, 0};
    case Staging::Unit::lane:  // lanes that read the same 16 bytes share one wavefront of every two
      return {2 * 16 * both, 256 * products + 16 * both, 2 * both};
  }
  return {};
}

/// The share of a lane's multiply-adds that wait a cycle for a bank of registers. Where a scheduler has lanes for one a cycle, each of two
/// banks delivers one operand in it: two of three must be different banks', the third kept from the instruction before. Products are
/// ordered for that (products_f32), but for so many, counted in the SASS of 43 kernels. (Of 4096³ as ordered before, 0.45 were not, from
/// which 0.637 follows; an H200's lanes were busy for 0.64 of the time.) Fewer lanes take two cycles.
double bank_waits(const hw::Atom& atom, const hw::Profile& profile, double tiles) {
  const double a_cycle = atom.per_ns * atom.m * atom.n * atom.k / 32 / (profile.gpu.schedulers * profile.ghz);
  return a_cycle > 0.75 ? 0.36 / std::pow(tiles, 0.6) : 0;
}

/// A multiplying warp's.
hw::Workload::Issue products(const NestPlan& plan, const Shape& b, const hw::Profile& profile) {
  hw::Workload::Issue i{plan.atom, b.row_tiles * b.column_tiles * double(b.steps)};
  if (plan.staging->unit == Staging::Unit::lane) i.waits = bank_waits(*plan.atom, profile, b.row_tiles * b.column_tiles);
  return i;
}

/// What the copy unit brings, many blocks ask for at once, and L2 brings some of it once for several of them. The share that is brought for
/// each: a fit to products of bf16 on an H200 (16 to 2048 rows, 21 tiles), of which 2 to 4 blocks that share a factor gain nothing, 8 half,
/// 32 to 64 two thirds to four fifths. That is all that a cluster's multicast would do, too: nine products took 0.1 to 2.4 µs longer by
/// clusters than the same tiles without.
double brought(double sharers) { return std::min(1.0, 1.6 / std::sqrt(sharers)); }

/// Of a box a row is 128 bytes of a line, or of two where rows do not begin lines; boxes that blocks share take L2 somewhat longer than
/// what comes in one piece (H200, 1024³: 64 × 128 of which b is packed 5.5 µs, 128 × 64 6.1; 1000³, whose rows lie across lines: 7.1
/// and 8.8).
double of_boxes(const NestFacts::OperandFacts& o, const NestPlan& plan, double row_bytes, double sharers) {
  const double slower = sharers > 1 ? 1.25 : 1;
  constexpr int64_t line = 2 * kStepBytes;
  int64_t apart = line;  // rows begin at multiples of it
  for (size_t a = 0; a < o.coef.size(); ++a)
    if (int(a) != plan.k_axis) apart = std::gcd(apart, std::abs(o.coef[a]) * o.element_bytes);
  return slower * (1 + std::max(0.0, std::min(row_bytes, double(line)) - double(apart)) / double(line));
}

/// Between a block and L2.
double factor_bytes(const NestFacts& facts, const NestPlan& plan, const Shape& b, const hw::Profile& profile) {
  const Staging& s = *plan.staging;
  const double in_steps = double(b.k_steps * kStepBytes);
  const double row_blocks = double(s.rows.blocks), column_blocks = double(plan.tile[size_t(plan.vec)].blocks);
  const auto at_once = [&](double blocks, double others) {  // those that run are about a square of all blocks
    return std::min(blocks, std::max(std::sqrt(profile.cores), profile.cores / others));
  };
  const auto of_row = [&](int operand, double sharers, Staging::Copies how, int row_axis) {
    const NestFacts::OperandFacts& o = facts.operands[size_t(operand)];
    const double row_bytes = double(b.k_extent) * o.element_bytes, sector = double(profile.levels[1].line_bytes),
                 used = std::min(1.0, std::ceil(row_bytes / sector) * sector / in_steps);  // what is beyond a row is not brought
    const bool in_one_piece = s.producers() && b.packed && operand == plan.operand_b;
    if (in_one_piece || s.tensor_copies) return brought(sharers) * (in_one_piece ? 1 : used * of_boxes(o, plan, row_bytes, sharers));
    // threads ask for half of a line of each row at a time (H200: f16, 3 × 3 over 64 channels 37 µs, 3000 × 3000 × 200 25; what earlier
    // chips do was not measured)
    const double gathered = profile.has("tma") ? 2 : 1;
    if (how == Staging::Copies::pieces && !(b.packed && operand == plan.operand_b)) return gathered * used;
    return how == Staging::Copies::along_rows ? double(o.coef[size_t(row_axis)]) : 1;  // every other neighbour
  };
  return double(b.steps * kStepBytes) *
         (double(b.rows) * b.used_rows *
              of_row(plan.operand_a, at_once(column_blocks, row_blocks), s.copies_a, s.row_axes.empty() ? -1 : s.row_axes.back()) +
          double(b.columns) * of_row(plan.operand_b, at_once(row_blocks, column_blocks), s.copies_b, plan.vec));
}

/// Registers and shared memory: what decides how many blocks an SM holds.
void count_resources(hw::GpuWorkload& g, const NestFacts& facts, const NestPlan& plan, const Shape& b) {
  const Staging& s = *plan.staging;
  g.block_tasks = int(b.all), g.tasks = int64_t(b.blocks) * g.block_tasks;
  g.shared_bytes = block_memory(plan).bytes;
  // a pointer and coordinates for every row that is copied; a packed factor needs one pointer
  const double guards = double(facts.operands[size_t(plan.operand_a)].guards.size());
  const double pointers = b.a.rows * (2 + 2 * guards) + (b.packed ? 2 : 2 * b.b.rows),
               sums = b.vectors() + step_of(s.unit, b).registers + (b.a.waiting + b.b.waiting) * s.depth;
  g.registers = int(round_up(int64_t(s.producers() ? std::max(sums, pointers) : sums + pointers) + 40, 8));
}

/// Blocks of a cluster give and take sums (H200: kernels that do nothing else take 1.5 µs longer for 32 KiB of two blocks, half of which is
/// taken, 2.1 for 64; products in two parts about 1.3 µs and the bytes' time longer than their stages).
double exchange_ns(const NestPlan& plan, const Shape& b, const hw::Profile& profile) {
  constexpr double kMeet = 1600, kOfPart = 400, kBytesPerCycle = 12;
  const double parts = plan.staging->parts, taken = double(b.rows) * double(b.columns) * 4 * b.finished * (parts - 1);
  return (kMeet + kOfPart * parts + taken / kBytesPerCycle) / profile.ghz;
}

/// What a warp executes (the average one, where some multiply and others copy), and how its rounds follow each other.
void count_instructions(hw::GpuWorkload& g, const NestFacts& facts, const NestPlan& plan, const Shape& b, const hw::Profile& profile) {
  const Staging& s = *plan.staging;
  const Step step = step_of(s.unit, b);
  const double steps = double(b.steps), vectors = b.vectors() * b.finished, multiply = b.warps / b.all, copy = b.copying / b.all;
  const double guards = double(facts.operands[size_t(plan.operand_a)].guards.size());
  double outer_loads = 0;
  for (size_t i = 0; i < facts.reads; ++i)
    if (!facts.operands[i].inner) outer_loads += vectors;
  hw::Workload& w = g.task;
  w.atoms = {products(plan, b, profile)};
  w.atoms[0].count *= multiply;
  double epilogue_instructions = 6;
  for (const NestFacts::Function& f : facts.outer_functions)
    w.functions.push_back({f.name, f.times * vectors * multiply}), epilogue_instructions += f.instructions;
  constexpr double kWavefront = 128;
  // what the copy unit writes gets half as much in the way of reads (H200: 65536 × 1024 × 1024 by 128 × 128 in turns took 200 µs, as long
  // as the reads of its products and whole writes alone would)
  constexpr double kBulkWrites = 0.5;
  // a column's 16 rows, half a vector, lie in four banks
  const double of_sums = 1 + 7 * b.in_line, halves = 1 + b.in_line;
  w.loads = (step.wavefronts * steps + of_sums * vectors + outer_loads) * multiply;
  const double bulk_a = s.tensor_copies ? kBulkWrites : 1, bulk_b = s.tensor_copies || (s.producers() && b.packed) ? kBulkWrites : 1;
  w.stores = (double(b.rows) * bulk_a + double(b.columns) * bulk_b) * kStepBytes / kWavefront / b.all * steps + 2 * vectors * multiply;
  const double copying = b.a.copies * 2 + b.a.rows * 3 * guards + b.b.copies * 2 + (b.packed ? 0 : b.b.rows),
               decoding = s.one_axis ? 2 : 6 + 10 * double(s.row_axes.size() - 1);
  // a round's barriers and addresses: those who multiply and those who copy have their own
  const double round = 14.0 / s.depth,
               epilogue = (epilogue_instructions * vectors + outer_loads) * halves + 16 * b.row_tiles * b.finished * decoding;
  w.instructions = (step.instructions * steps + epilogue) * multiply + (copying * copy + round) * steps;
  w.levels.resize(1);
  w.levels[0] = {w.loads * kWavefront, w.stores * kWavefront};
  // at the barrier of a round the pipeline of products runs empty, but for a group's, which are still under way
  const double barrier_ns = 20 / profile.ghz, near_ns = profile.levels[0].latency_ns;
  g.stalls_ns = s.unit == Staging::Unit::group ? 0 : (barrier_ns + near_ns) * steps / s.depth;
  // a step: the first fragments, two dependent products
  w.chain_steps = steps, w.chain_latency_ns = 2 * plan.atom->latency_ns + (1.0 + 1.0 / s.depth) * near_ns;
  g.asynchronous = true;
  // a stage is filled, multiplied, and of a group held until the next is there: of so many one after the other each is a share of the pace;
  // then the results, and the first stage unless it was filled during the task before
  g.held = 1.0 / (s.ahead() + 1);
  g.rounds = (s.producers() ? 1 : 2) + steps / double(s.depth) * g.held;
  // from a consumer's release to the producer, through the copy unit and back by the barrier (H200: products of 3 and 4 stages)
  constexpr double kRoundTrip = 900;  // cycles
  // sums leave in a warp's own time: products wait for them, unless they are another group's
  constexpr double kPace = 3.5;  // cycles an instruction (H200: epilogues of erf); of lanes that multiply, one is counted above
  g.last_ns = (s.unit == Staging::Unit::lane ? kPace - 1 : kPace) * epilogue / profile.ghz, g.turns = s.turns;
  if (s.producers()) g.round_trip_ns = kRoundTrip / profile.ghz;
  // blocks of a cluster begin together, wait for each other's stages and end together (H200, the median of those nine)
  constexpr double kCluster = 900;
  if (s.cluster > 1) g.launch_ns = kCluster;
  if (s.parts > 1) g.launch_ns = exchange_ns(plan, b, profile);  // of blocks that have one task and are all in step
}

/// Between a block and L2: its factors at every step, and the epilogue's tensors. Lanes that store apart write a part of a line each, which
/// takes L2 twice as long as a whole one (H200: planes of 64 and 256 channels, 500 and 1650 µs).
void count_bytes(hw::GpuWorkload& g, const NestFacts& facts, const NestPlan& plan, const Shape& b, const hw::Profile& profile) {
  const double rows = double(b.rows) * b.used_rows * b.finished;
  g.block_read_bytes = factor_bytes(facts, plan, b, profile);
  for (size_t i = 0; i < facts.operands.size(); ++i) {
    const auto& o = facts.operands[i];
    if (int(i) == plan.operand_a || int(i) == plan.operand_b) continue;
    const auto& axes = plan.staging->row_axes;
    const bool by_row = std::any_of(axes.begin(), axes.end(), [&](int x) { return o.coef[size_t(x)] != 0; });
    const double elements = (by_row ? rows : 1) * (o.coef[size_t(plan.vec)] != 0 ? double(b.columns) : 1);
    const double apart = o.is_store && std::abs(o.coef[size_t(plan.vec)]) > 1 ? 1 - b.in_line : 0;
    const bool half_lines = o.is_store && o.element_bytes == 2 && !(plan.staging->unit == Staging::Unit::group && plan.column_tiles() > 1);
    (o.is_store ? g.block_write_bytes : g.block_read_bytes) +=
        elements * (apart * 2 * profile.levels[1].line_bytes + (1 - apart) * o.element_bytes * (half_lines ? kHalfLines : 1));
  }
}

}  // namespace

double least_us(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const hw::Profile& profile) {
  const Shape b = shape_of(nest, plan);
  const hw::MemoryLevel& l2 = profile.levels[1];
  const double blocks = b.blocks, busiest = std::ceil(blocks / profile.cores);
  const double compute = b.warps * hw::products_ns(products(plan, b, profile), profile);
  const double from_l2 = factor_bytes(facts, plan, b, profile) / l2.read_gbs(int(std::min<double>(blocks, profile.cores)));
  return profile.call_us + busiest * (std::max(compute, from_l2 * (1 - l2.overlap)) + from_l2 * l2.overlap) / 1e3;
}

hw::GpuWorkload block_workload(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const hw::Profile& profile) {
  const Shape b = shape_of(nest, plan);
  hw::GpuWorkload g;
  count_resources(g, facts, plan, b);
  count_instructions(g, facts, plan, b, profile);
  count_bytes(g, facts, plan, b, profile);
  return g;
}

void add_memory(hw::GpuWorkload& g, const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& c) {
  const Staging& s = *plan.staging;
  const int64_t resident = hw::resident_blocks(g.block_tasks * c.profile.gpu.warp, g.registers, g.shared_bytes, c.profile);
  const int64_t wave = std::max<int64_t>(1, resident * c.profile.cores / s.parts), columns = plan.tile[size_t(plan.vec)].blocks;
  const int64_t deep = std::min(columns, ceil_div(wave, s.raster));  // column blocks that a wave walks, then its row blocks
  const int64_t wide = std::min(s.rows.blocks, s.raster * ceil_div(wave, s.raster * columns));
  int64_t batches = 1;
  for (int a : s.batch_axes) batches *= nest.axes[size_t(a)].extent;
  const auto in_wave =
      covered(nest, plan, wide * s.block_rows(), deep * plan.block_columns(), std::min(batches, ceil_div(wave, s.rows.blocks * columns)));
  const auto all = covered(nest, plan, s.rows.extent, nest.axes[size_t(plan.vec)].extent, batches);
  const double waves = std::ceil(double(plan.tasks()) / double(wave));
  const auto bytes = [&](size_t i, const std::vector<int64_t>& extents) {
    return footprint_bytes(facts.operands[i], extents, c.profile.levels[1].line_bytes, fetch_of(facts, plan, i, Fetch::sectors));
  };
  double total = 0;
  for (size_t i = 0; i < facts.operands.size(); ++i) total += bytes(i, all);
  for (size_t i = 0; i < facts.operands.size(); ++i) {
    const auto& o = facts.operands[i];
    if (c.home[size_t(o.tensor)] < 2) continue;  // it stays in L2 between calls
    const double once = bytes(i, all);
    (o.is_store ? g.dram_write_bytes : g.dram_read_bytes) += stays_in_l2(once, total, c) ? once : std::max(once, waves * bytes(i, in_wave));
  }
}

}  // namespace rgen::rtile
