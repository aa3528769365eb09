// How a plan walks its operands through a CPU's memory: what prefetchers follow, rows by turns, lines that share a cache's sets.
#pragma once
#include <optional>
#include <span>

#include "rtile/tile_counts.h"

namespace rgen::rtile {

constexpr int64_t kGapBytes = 2048;  ///< of the steps that prefetchers follow (Intel 2023, Optimization Reference Manual, §E.2.5)
/// Rows walked by turns that prefetchers follow. Column sums of 4096 × 4096, chunks of 8 to 4096 rows, pieces of 64 to 960 bytes (Zen 4).
constexpr double kRowsFollowed = 16;
/// Loads of a body, line after line, each of which comes back where the body's last one left off: so many are followed into the first cache
/// (sums of whole rows in L2, 2 to 28 vectors by 1 to 8 rows: up to 28 loads 0.25 to 0.36 ns a line, 29 and more 0.49; Zen 5).
constexpr int64_t kLoadsFollowed = 28;

/// From the tile outwards through the loops.
struct Stretch {
  static constexpr double kPanel = 65536;     ///< bytes that count as no jump at all
  static constexpr double kRampBytes = 2048;  ///< that come from memory at half the rate, until the prefetchers are far enough ahead
  double bytes = kPanel;                      ///< touched before a jump
  double slow = 0;                            ///< what is added to their time where they come from memory, 1 at half the rate
  double turns = 1;                           ///< rows that are walked by turns
  bool go_on = false;                         ///< ... each of them through all of the tensor's rows or a part of them (rows_apart.h)
  double piece = kPanel;                      ///< bytes of one before the next one's turn, or before a jump
  double jumps_over = 0;                      ///< pieces of other rows that are walked before the next one of a row, behind a jump
};

class Walks : public CountedPlan {
 public:
  explicit Walks(const CountedPlan& plan) : CountedPlan(plan) {}

  Stretch stretch(size_t operand) const;

  /// Rows that pass by are asked for, each line ahead of its use; but short ones of which a tile reads many by turns are not followed on
  /// their way to it (of 256 bytes, a product of 2 columns: 2 to 4 rows 0.9 to 1.0 ms, 7 rows 1.5, 8 rows 1.9, 9 rows 2.2; Zen 4).
  double slow_rows(size_t operand) const;

  /// Of an operand whose rows are asked for some tiles ahead while the results' pieces are collected (NestPlan::combining).
  bool next_rows_asked_for(size_t operand) const { return plan_.combining && operand < facts_.reads && plan_.operands[operand].ahead > 0; }
  /// ... what their beginnings and ends cost: transpositions of 3000 × 5000 by pieces of 64, 128, 256 and 512 columns 7.0, 6.5, 6.4 and 6.0
  /// ms (Zen 4).
  double slow_pieces(size_t operand) const;

  /// How much longer the last cache takes for pieces of rows that are not read one after the other. Down columns, rows of 384 to 1024
  /// bytes: pieces of one line 1.4 to 1.7 times as long as row by row, of two lines 1.1 to 1.6 (Zen 3, 6 MB); longer where a column is
  /// long, so that the second cache has lost what came with a line when its turn comes (2 × 2 depthwise, columns of 1600 lines 207 µs, of
  /// 6400 262; Zen 4). Of short rows by turns, where they leave that cache between uses: 2 to 16 rows of 256 to 1000 bytes, pieces of one
  /// line 1.3 to 3.5 times as long, of two lines 1.1 to 1.6, of four as long (13 MB of 32, beside other guests).
  double in_pieces(size_t operand, const hw::MemoryLevel& last) const;

  /// What columns take longer where their lines share sets: by rows 1, 2, 3, 4, 6, 8, 16, 32 and 64 lines apart a line
  /// takes 1.0, 1.1, 1.05, 1.3, 1.1, 2.2, 3, 3.7 to 4.7 and 4.2 to 7.8 times as long as row by row, two
  /// lines 1.0, 1.0, 1.0, 1.1, 1.0, 1.4, 1.75, 2.1 to 2.5 and 2.5 to 4 (3 and 8 MB from the last cache of a Zen 5).
  double sharing_sets(const NestFacts::OperandFacts& o, const hw::MemoryLevel& from) const;

  /// The share of an operand's lines from memory that products wait for because several rows of a page are read by turns
  /// (hw::MemoryLevel::page_rows_ns is what four rows wait): prefetchers follow one walk a page. Rows less than half a KiB apart are
  /// covered by what comes beside a line, from 2 KiB on a page has few (4 rows, 192, 256, 384, 512, 640, 896, 1280, 1792 and 2560 bytes
  /// apart, beside 16 multiply-adds a vector: 0.3, 0.5, 0.3, 3.6, 5.0, 4.8, 3.3, 2.2 and 1.6 ns a line longer than from near; 1, 2, 3 and 6
  /// rows of 896: 0.6, 2.5, 4.3 and 5.5; Zen 3).
  double rows_in_pages(size_t operand) const;

  /// Where the lines begin that one unrolled body reads along other axes than the contiguous one: bytes, ascending. Without the steps of
  /// its reduction: of a window that slides, one row is new.
  std::vector<int64_t> body_lines(size_t operand, bool steps = true) const;
  /// The innermost walk goes by steps that prefetchers follow; other walks lose nothing where there are too many for them (7 rows of 3 to
  /// 16 places each, more than 2 KiB from place to place, 2.9 to 3.2 ms; Zen 4).
  bool goes_on(size_t operand) const;
  /// Vectors are transposed, or neighbours taken apart.
  bool turns_in_registers() const;
  /// The share of lines that prefetchers of the first cache do not follow, where a body's pieces of rows begin at these places, ascending:
  /// all of rows that are eight lines and more apart, others by how far they go. Reads of two rows of 120 and 128 floats 0.33 and 0.48 ns a
  /// line, of five of 32, 48 and 64 0.33, 0.40 and 0.49, of eight of 32 and 48 0.34 and 0.48; where no piece begins a line, of three of 72,
  /// 81 and 111 0.34, 0.43 and 0.46 (Zen 5, from the second cache). None: they are next to each other.
  std::optional<double> by_turns(const std::vector<int64_t>& places, int64_t piece) const;
  /// Where the pieces of rows begin that one unrolled body reads or writes, bytes from the first, with or without the steps of its
  /// reduction; and what it touches of each.
  std::vector<int64_t> body_places(size_t operand, bool steps = true) const;
  int64_t piece_bytes(size_t operand) const;
  /// The share of an operand's lines that no prefetcher of the first cache asks for (hw::MemoryLevel::apart_ns): of rows by turns, but one
  /// line of each by turns once rows are long (sums of 4000 floats 0.3 to 0.46 ns a line, of 6000 0.3 to 0.35); of walks that skip lines
  /// (sums of columns 0.50, whatever the stride); of bodies of more than kLoadsFollowed loads (along rows more than 4 to 18 lines, because
  /// rows end inside bodies: of one row 0.34 by 16, 0.36 to 0.43 by 20, 0.47 by 24); and of pieces of more than two rows one after the
  /// other, however long (28 pieces of 1 to 14 KB of four rows 1.0 ns a line read and written, of two rows, or of one row after the other,
  /// 0.6; all Zen 5).
  double unfollowed(size_t operand, const Stretch& s) const;
  /// From one body to the next.
  double walked_bytes(size_t operand) const;
  /// The lines of a body come back at the next steps; where too many of them fall into the same sets of the first-level cache, they are
  /// fetched again at every step, and the more of them, the less products hide of it: in latencies of the second cache. 512 × 1024 by 1024
  /// × 16, rows of 4 KiB, tiles of 10, 12, 16, 20 and 24 rows: 145, 194, 325, 452 and 575 µs; rows of 4000 bytes 140 all (Zen 4).
  struct Conflicts {
    double bytes = 0, waits = 0;
  };
  Conflicts conflicts(const std::vector<int64_t>& lines) const;

  /// How far more rows that a tile of a map or reduction walks by turns meet in the sets of the first-level cache than those have ways, in
  /// waits for each of their lines: rows nearly a multiple of a way apart bring the line that is used, its neighbour and what prefetchers
  /// ask for ahead into the same few sets. Sums of 64 rows of 12264 bytes by 4 rows 7.2 us, by 16 rows 11.1; heads of 77 × 8 × 40, results
  /// 12320 bytes apart, by 4 rows 1.8 us, by 8 rows 2.8, of 78 × 8 × 40 1.7 (Zen 4).
  double crowding(size_t operand) const;

  /// What products wait for each line that the second cache brings of rows that their reduction walks and that share one or two sets of the
  /// first one, in that cache's latencies: lines under way push each other out, and nothing that was fetched ahead stays. 64 rows of 16
  /// floats, 12 multiply-adds of 8 lanes each, rows 4096, 2048, 1024 and 4160 bytes apart: 3.7, 2.5, 2.1 and 2.1 ns a row; 16, 32 and 128
  /// of 4096 bytes 2.6, 2.8 and 3.7; one row an iteration, which prefetchers follow, 2.55 (Zen 3; a latency of 3.6 ns).
  double rows_in_sets(size_t operand) const;
  /// ... of a broadcast factor's rows that share a set of the first cache, all but two of its ways, while lines of the other factor that
  /// were asked for ahead wait in it. 2048³ by tiles of 6 × 16, rows of 8 KiB: 210, 209, 235 and 196 ms (tiles along n, by 30 rows, along
  /// m, in two chunks); of copies whose rows lie apart 190, 192, 202 and 182; the same tile from the second cache alone, 6 % with requests
  /// and nothing without (Zen 3).
  double rows_beside_fetched(size_t operand) const;
  /// ... that the last cache brings of rows a tile away from those of the tile before, in that cache's latencies: of two lines for each
  /// 108 multiply-adds, most of the latency is over before a core's registers are all taken by what waits for them (36 planes of 86 × 68,
  /// 3 × 3, tiles of 16 columns along the rows 2.17 ms, down the columns 2.50, either from the second cache 2.16; Zen 3).
  /// `tile_fits`: the second cache holds what one tile touches; else all of its lines are such, wherever the tile before was.
  double lines_alone(size_t operand, bool tile_fits) const;

  /// How a result is written.
  struct WriteWalk {
    double bytes, rows;  ///< without a gap before the walk leaves them for good; so many such rows a tile, by turns
    bool neighbours;     ///< ... which touch each other
    bool jumps;          ///< else all of it is one stretch
  };
  WriteWalk write_walk(const NestFacts::OperandFacts& o) const;

  /// How much longer a cache takes for results that are written by pieces of rows (hw::MemoryLevel::pieces): on Granite Rapids, whose last
  /// cache takes as long for a line as products of eight vectors, lines of their own take 1.5 to 2.8 times as long as whole rows, pieces of
  /// 256 bytes 1.2 to 1.7, of a KiB 1.1 to 1.4, of 4 KiB 1.0 to 1.2.
  double written_in_pieces(const NestFacts::OperandFacts& o, const hw::MemoryLevel& to) const;

  /// What lines in memory cost beyond their own time because they are written out of order: a core waits for a line before it writes the
  /// next one, unless prefetchers have asked for it, and they follow what is written in order. Rows by turns count as far as each goes on,
  /// and together where they are neighbours that soon are complete. Rows of 256, 1024 and 4096 floats, two to sixteen by turns, take 3, 1.7
  /// and 1.4 times as long as one after the other, pieces of 64 to 512 bytes of every row before the next piece 3 to 6 times (Zen 4).
  double slow_stores(const NestFacts::OperandFacts& o) const;

  /// The share of its lines that a map's result, in a cache, waits for because its rows fall into few sets of the first-level cache
  /// (store_wait): rows by turns, of which more come between two pieces of one than a set has ways. Transpositions into rows of 1024,
  /// 2048 and 3072 bytes from one whole column of the result after the other, pieces of one line, take 2.4, 3.8 and 2.3 times as long as
  /// along rows of 16 columns; into rows of 4000 bytes as long (Zen 5).
  double waiting_stores(const NestFacts::OperandFacts& o) const;

  /// What a product's results wait for the same reason beyond the time of a tile's products, which hide the rest, in the second cache's
  /// latencies. 5 × 5 of bytes to 64 planes of 224², 49 times 4 KiB: 32 planes by 14 places 1.69 ms, 16 by 15 0.64, 16 by 16 0.40; 6 × 6 to
  /// 32 planes of 160² 0.50 and 0.28, of f32 as long as to planes of 160 × 162 (Zen 5).
  double crowded_stores(const NestFacts::OperandFacts& o) const;

  /// What a product's results displace in the second cache, in waits for each of their lines: where more of their rows share its sets than
  /// it has ways for before a piece's neighbour comes, they push out what the loops inside would have found there, lines here and there
  /// that no prefetcher follows. 1024 × 1024 of bytes, 512 KiB of a and 512 rows of 4 KiB for each piece of two lines, 5.04 ms, along
  /// eleven pieces of a row 4.76, into rows of 4160 bytes 4.88; of bf16, whose half of a does not stay there, either way alike (Zen 4).
  /// `touched`: bytes of all operands, at every depth of the loops.
  double displacing_stores(const NestFacts::OperandFacts& o, std::span<const double> touched) const;

  /// Results that are stored lane by lane into rows that share sets of the first-level cache, more than it has ways for beside two lines of
  /// what the next tile reads: each finds its line gone again, and two of them are waited for at once (a 6 × 6 convolution to 32 planes of
  /// 100 KiB, 25 ways apart, 16 lanes a tile: 4.2 ms, transposed 2.8; 3 × 3 by steps of two to 32 planes of 60 KiB, 15 ways apart, 8 lanes
  /// a tile 2.59, transposed 2.27; Zen 3). 0: none.
  double evicted_stores(const NestFacts::OperandFacts& o) const;

  /// How much longer lines take that are streamed to rows by turns: to k of them k times as long, up to 8 (a map of 4096 × 3072 on Zen 4:
  /// 5.3, 6.2, 7, 8.7 and 10 to 14 ms for 1, 2, 3, 4 and more rows), by vectors that are whole lines. Of narrower ones, where a line may
  /// leave before its second half is there, it is the short pieces that cost: a copy of 4096 rows of 4 KiB takes 0.9 ms row by row, by two
  /// rows in turn 1.3, and by four, pieces of 64, 128 and 256 bytes, 4.6, 3.7 and 2.0; a transposition of 4096 × 4096 that streams half
  /// lines to 160 rows 26 ms, whole ones 10 (Zen 3).
  double streamed_pieces(size_t operand, const Stretch& s) const;

  /// How much longer lines take that are streamed to memory, or asked for ahead of a fused group's next tile, where each piece of a row is
  /// followed by one of another (RMS norm of 8000 × 2048: pieces of one line 7.1 to 8.1 ms, streamed alone 6.1, asked for alone 7.3; of
  /// two lines 4.2, of four 3.7; Zen 4).
  double jumping(double piece) const;

  /// Sets of a cache that rows so many bytes apart (0: one row) can fall into. Pre: the cache says how many ways it has.
  static double sets(int64_t stride, const hw::MemoryLevel& level);

 private:
  /// What the nest touches of it ends where it begins the next time.
  bool continued(const NestFacts::OperandFacts& o) const { return !c_.continued.empty() && c_.continued[size_t(o.tensor)]; }
  /// Products read it by rows, not from panels.
  bool factor_in_place(size_t operand) const;
  /// Elements of an axis in one unrolled body.
  int64_t in_body(size_t a) const;
  /// Of an axis by one tile: of a reduced one, all or a chunk.
  int64_t within_tile(size_t a) const;
  /// Of places so many bytes from the first, how many meet in one set of the first-level cache, in the mean of the sets that any meets.
  /// Pre: the cache says how many ways it has.
  double in_one_set(std::vector<int64_t> places) const;
  /// What each store waits, in the second cache's latencies, where it is one of `in_set` rows by turns in a set of the first-level cache,
  /// which fall into so many sets, by pieces of so many bytes: the line is gone when the next piece goes on with it, and stores to one set
  /// come one after the other. Pieces of 32 and 56 bytes, in one set 12, 16, 20, 24, 32, 48 rows 0.2, 2.3, 3.3, 4.5, 6.6, 7.8 ns a piece
  /// (beside 0.5), in two 0.2, 1.9, 3.5, 4.7, 5.5, 5.6, in four 0.1, 1.8, 2.3 and no more, in eight 0.3. Of lines written whole one
  /// by one 0.2, 1.2, 1.9, 2.5, 3.3, 4.7; two at a time 0.7, four 0.3 times that (Zen 5, 12 ways, a latency of 3.2 ns).
  double store_wait(double in_set, double sets, int64_t piece) const;
  /// Lines of a set that a body reads between the stores of two tiles, where a body is all of a tile, and those of 2 KiB rows and more of
  /// tensors that begin alike share sets with what it writes, as they count against stores: 7 places of 4 KiB rows (depthwise, 800 × 1024)
  /// by 8, 10, 12, 14 and 23 results a tile 148, 160, 177, 200 and 380 µs, without waiting 120 to 125 and 185 (Zen 5).
  double read_beside_stores() const;
  /// Bytes of a row that a tile writes.
  int64_t written_piece(const NestFacts::OperandFacts& o) const;
  /// How far so many lines of one set exceed a cache's ways: 1 from half as many again on.
  static double overfull(double lines, const hw::MemoryLevel& level);
  /// Neighbours along the axis are a line and more apart.
  bool across(const NestFacts::OperandFacts& o, size_t a) const;
  /// ... that an operand's can.
  double sets_of(const NestFacts::OperandFacts& o, const hw::MemoryLevel& level) const;
  /// The innermost loop that goes from one piece of a row to the next; the rows walked by one iteration of a loop.
  std::optional<size_t> loop_along_rows(const NestFacts::OperandFacts& o) const;
  double rows_inside(const NestFacts::OperandFacts& o, size_t loop) const;
  /// ... of them in one set of the first-level cache, one after the other.
  double rows_in_set(const NestFacts::OperandFacts& o, size_t loop) const;
  /// `unfollowed`, as long as prefetchers remember each load of a body.
  double alone_in_body(size_t operand, const Stretch& s) const;
  /// The part of those lines that come as fast as others where a body has so many loads that prefetchers do not: sums down pieces of rows
  /// of 1024 to 2048 floats in L2 by 64 and 96 loads 0.50 ns a line, by 144 0.32 to 0.43, by 192 0.30 to 0.39, by 224 0.31 to 0.38 (Zen 5).
  double forgotten(size_t operand) const;
  /// Where the rows begin that a tile walks by turns: bytes from the first.
  std::vector<int64_t> rows_by_turns(size_t operand) const;
  /// Of all lines that are walked before the neighbour of a piece.
  double column_bytes(size_t operand) const;
  /// Of a line that prefetchers do not ask for: stores of a tile come together, others as many as a core looks ahead.
  double unfollowed_store() const;
};

/// How the plan walks an operand.
Stretch stretch_of(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context, size_t operand);

}  // namespace rgen::rtile
