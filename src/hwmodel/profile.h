// Profile: the hardware as data. One JSON a device, checked against hwprofiles/schema.json, then semantically.
// Rates are given per core (CPU) or per SM (GPU) at the clock stated; every figure of the JSON carries value, unit, source
// (datasheet | measured | estimated) and date; here they are plain numbers in the units named below.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace rgen::hw {

/// Bandwidth seen by one sharer (core or SM) when `sharers` of them pull at once. GB/s = 1e9 bytes/s.
struct SharedBandwidth {
  int sharers;
  double gbs;
};

/// One level of the memory hierarchy, innermost first: L1, L2, (L3,) DRAM; on a GPU smem, L2, DRAM. Registers are in the profile.
struct MemoryLevel {
  std::string name;
  int64_t capacity_bytes = 0;  ///< of one instance; 0 = unbounded (DRAM)
  int ways = 0;                ///< associativity; 0 = not applicable (DRAM, shared memory)
  int line_bytes = 64;         ///< line, sector or transaction
  int shared_by = 1;           ///< cores (SMs) that share one instance
  double latency_ns = 0;
  std::vector<SharedBandwidth> read;  ///< ascending `sharers`; towards the next inner level
  std::vector<SharedBandwidth> write;
  std::vector<SharedBandwidth> stream, copy;  ///< of memory, past the caches: written; read and written, half and half. Empty: as `read`
  /// Of memory in pages as callers get them, at whose ends prefetchers stop: of one row, and of `kRows` by turns. Empty: as `read`.
  std::vector<SharedBandwidth> row, rows;
  static constexpr int kRows = 8;
  double overlap = 0;  ///< 0: its transfer time hides fully behind the slowest resource; 1: it adds up
  /// Of memory: ns that products wait for each line that is read by several rows of one page by turns, since prefetchers follow one walk a
  /// page; from caches a core looks far enough ahead by itself. 0: for none.
  double page_rows_ns = 0;
  /// Of the second level: ns by which a vector takes longer that is read from it and ends in the next line; and one that is stored so where
  /// a copy writes several rows by turns, so that other stores come between those of a line.
  double split_reads_ns = 0, split_writes_ns = 0;
  /// ... ns in which it delivers or takes a line of rows by turns, which no prefetcher of the first cache follows; 0: not measured.
  double apart_ns = 0;
  /// Of caches beyond the second: how many times as long a line takes that is written alone in its row as one of a row written whole.
  double pieces = 1;
  /// ... and one that is read alone in its row, then one of the next, as one of rows read one after the other; likewise the default.
  double columns = 1.6;
  double kib_columns = 0;  ///< ... of rows of a KiB, which share a sixteenth of the sets; 0: not measured, `columns` is for all, and what
                           ///< begins a stretch is waited for beside it
  /// ... how many times as long lines take that `kTurns` rows deliver by turns as those of one row; the default holds elsewhere, too.
  double turns = 2;
  static constexpr int kTurns = 24;
  /// ... how many of its lines a core waits for at once (fill buffers of the first cache); likewise.
  double misses = 10;
  /// Of the last cache: the share of lines, of half of it, that it has when they are read again after they came from memory. Victim caches
  /// take lines in by and by, and other guests hold a part.
  double kept = 1;
  bool prefetched = false;             ///< of the first level: prefetches for the second one bring lines into it, too
  double read_gbs(int sharers) const;  ///< time per byte interpolated linearly, clamped at both ends
  double write_gbs(int sharers) const;
  /// How much longer than at `read` bytes take that are read of so many rows by turns.
  double by_turns(double rows_read, int sharers) const;
  /// What of both goes by turns takes the time of a copy, the rest its own: reads and writes may use links that are not the same.
  double streaming_ns(double read_bytes, double streamed_bytes, int sharers) const;
};

/// An instruction of the machine: acc[m×n] += a[m×k]·b[k×n] of these types. `lanes` instead of n for elementwise forms.
struct Atom {
  std::string name;  ///< row of the emitter's atom table: "fma", "vdpbf16ps", "vpdpbusd", "tdpbf16ps", "tdpbssd", "mma.sync", "wgmma", …
  DType a = DType::f32, b = DType::f32, acc = DType::f32;
  int m = 1, n = 1, k = 1;
  double per_ns = 0;      ///< issued per ns by one core (SM)
  double latency_ns = 0;  ///< accumulator to accumulator
  bool tf32 = false;      ///< rounds f32 operands to tf32: only under `math` tf32
};

/// A device profile; immutable once loaded.
struct Profile {
  std::string name, title, vendor;
  enum class Kind : uint8_t { cpu, gpu } kind = Kind::cpu;
  std::string arch;              ///< "x86-64", "aarch64", "sm_80", …
  bool avx512 = false;           ///< of `isa`: masks, shuffles of two vectors and scatters (F, BW, DQ, VL), whatever the vectors' length
  std::vector<std::string> isa;  ///< "avx2","fma","avx512f","avx512bf16","avx512vnni","amx-bf16","neon","dotprod", …
  std::string march;             ///< value of the compiler's -march for a CPU
  double ghz = 0;                ///< the clock that rates and latencies refer to
  int cores = 1;                 ///< cores or SMs
  int vector_bits = 0;           ///< widest SIMD register; of a GPU: 32-bit × warp
  int vector_registers = 0;
  double halves = 1;   ///< instructions on half a vector in the time of one on a whole: 2 where whole ones take two passes (Zen 4)
  int load_ports = 0;  ///< full-width loads a cycle and core
  int store_ports = 0;
  double broadcasts = 0;   ///< loads a cycle of one element for all lanes (0: as many as full-width ones)
  double split_loads = 0;  ///< full-width loads a cycle that begin in one line and end in the next (0: half of the others)
  double burst_ns =
      0;  ///< by which each result beyond eight that a tile of multiply-adds stores holds up the next one (0: its store's time)
  int issue_width = 0;  ///< instructions a cycle and core (micro-ops)
  std::vector<MemoryLevel> levels;
  std::vector<Atom> atoms;
  std::map<std::string, double, std::less<>>
      cycles;  ///< reciprocal throughput in cycles of one full-width vector:
               ///< "add","mul","div","sqrt","exp","log","tanh","erf","shuffle","convert","gather","int_div"
  std::set<std::string, std::less<>> own_ports;               ///< functions of `cycles` that run beside multiply-adds and multiplications
  std::map<std::string, double, std::less<>> latency_cycles;  ///< of functions of `cycles` that reductions chain: "add", "max"
  double fork_join_us = 0;                                    ///< one parallel region over all cores
  double call_us = 0;                                         ///< one kernel call (GPU: a launch)
  double page_bytes = 4096;
  int tlb_entries = 0;  ///< first-level data TLB (0: not modelled)
  double tlb_miss_ns = 0;

  /// GPU only (zero on a CPU).
  struct Gpu {
    int warp = 0, max_threads_per_sm = 0, max_blocks_per_sm = 0, max_threads_per_block = 0;
    int registers_per_sm = 0, max_registers_per_thread = 0, smem_banks = 0;
    int64_t smem_per_sm = 0, smem_per_block = 0;
    int schedulers = 0;          ///< warp schedulers an SM
    double block_launch_ns = 0;  ///< from one block of a grid that the device hands out to the next
  } gpu;

  std::string json;  ///< the canonical document (sorted keys), of which `hash` is the content hash
  std::string hash;  ///< 16 hex digits

  /// Of what a level (0: the nearest) gives to, takes from and passes by the one before it, ns: the nearest reads and writes at once, by
  /// ports of their own (on Zen 4 a load a cycle, a store every two), others by turns.
  double transfer_ns(size_t level, double read_bytes, double written_bytes, double streamed_bytes, int sharers) const;
  bool has(std::string_view isa_feature) const;
  /// This machine seen through vectors of half the length, if they are executed faster than whole ones. Same document, same hash.
  std::optional<Profile> halved() const;
  /// Full-width loads that take as long.
  double broadcast_loads() const { return broadcasts > 0 ? load_ports / broadcasts : 1; }
  double split_as_loads() const { return split_loads > 0 ? load_ports / split_loads : 2; }
  const MemoryLevel& level(std::string_view level_name) const;  ///< throws Error{invalid_profile}
  /// Cycles for a scalar function on one vector; throws Error{invalid_profile} naming the missing figure.
  double cost(std::string_view function) const;
  /// The atom with the most products a ns for a×b into acc, or nullptr; never one that rounds its operands to tf32.
  const Atom* find_atom(DType a, DType b, DType acc) const;
};

/// Parses and checks; `origin` names the file. Throws Error{invalid_profile} with the JSON path, the cause and the nearest right key.
Profile parse_profile(std::string_view json_text, std::string_view origin);
/// A file; or a shipped name ("a100", "a100.json"); or "host". `cache_dir` keeps the measured host profile ("" = measure every time).
struct HostOptions {
  bool measure = true;
  std::filesystem::path cache_dir;
};
Profile load_profile(const std::string& name_or_file, const HostOptions& host = {});
/// Names of the shipped profiles (compiled into the library), sorted; and one's JSON text.
std::vector<std::string> shipped_profiles();
std::optional<std::string> shipped_profile_text(std::string_view name);
/// This machine: topology and caches by hwloc, ISA by CPUID (HWCAP on Arm), bandwidths and rates measured in <= 3 s when `measure`;
/// otherwise the detected values and the nearest shipped profile's figures (marked `estimated`).
std::string host_profile_json(const HostOptions& options);
/// ISA features this process can execute; the profile's features missing here (empty: its kernels run on this machine).
std::vector<std::string> host_isa();
std::vector<std::string> missing_isa(const Profile& profile);
/// Human-readable differences of two profiles, one line a figure: "levels[L2].capacity: 1 MiB → 2 MiB".
std::vector<std::string> diff_profiles(const Profile& a, const Profile& b);

}  // namespace rgen::hw
