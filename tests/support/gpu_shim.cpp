// The machine under gpu_shim.h: fibers, rendezvous, asynchronous copies, shared memory, bank conflicts, fragments of matrices.
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#if !defined(GPU_SHIM_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define GPU_SHIM_UCONTEXT
#endif
#ifdef GPU_SHIM_UCONTEXT
#include <ucontext.h>
#endif

#include "gpu_shim.h"  // last, for its macros; found beside this file, so that a kernel's build needs no include path of ours

#ifdef GPU_SHIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

// ---- Switching stacks: what a call must preserve goes onto the old stack, and comes from the new one.
#ifndef GPU_SHIM_UCONTEXT
extern "C" void gpu_shim_switch(void** old_stack, void* new_stack);
#if defined(__x86_64__)
constexpr size_t kSavedWords = 6;  // below the return address
__asm__(R"(
  .pushsection .text
  .type gpu_shim_switch, @function
gpu_shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size gpu_shim_switch, . - gpu_shim_switch
  .popsection
)");
#else
constexpr size_t kSavedWords = 20;  // x29 and x30 last
__asm__(R"(
  .pushsection .text
  .type gpu_shim_switch, %function
gpu_shim_switch:
  sub sp, sp, #160
  stp d8, d9, [sp]
  stp d10, d11, [sp, #16]
  stp d12, d13, [sp, #32]
  stp d14, d15, [sp, #48]
  stp x19, x20, [sp, #64]
  stp x21, x22, [sp, #80]
  stp x23, x24, [sp, #96]
  stp x25, x26, [sp, #112]
  stp x27, x28, [sp, #128]
  stp x29, x30, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp d8, d9, [sp]
  ldp d10, d11, [sp, #16]
  ldp d12, d13, [sp, #32]
  ldp d14, d15, [sp, #48]
  ldp x19, x20, [sp, #64]
  ldp x21, x22, [sp, #80]
  ldp x23, x24, [sp, #96]
  ldp x25, x26, [sp, #112]
  ldp x27, x28, [sp, #128]
  ldp x29, x30, [sp, #144]
  add sp, sp, #160
  ret
  .size gpu_shim_switch, . - gpu_shim_switch
  .popsection
)");
#endif
#endif

namespace gpu_shim {

namespace {

constexpr int kWarp = 32;
constexpr size_t kDynamicCapacity = 232448, kGuard = 4096;  // what a block of compute capability 9.0 may have, and a zone after it
constexpr unsigned char kPoison = 0xff, kGuardByte = 0xa5;  // all ones are a NaN in f32, f16 and bf16

struct Context {
  void* stack_pointer = nullptr;
  void* fake_stack = nullptr;  // ASan's
  const void* bottom = nullptr;
  size_t size = 0;
#ifdef GPU_SHIM_UCONTEXT
  ucontext_t registers;
#endif
};

struct Copy {
  void* to;
  const void* from;
  unsigned bytes, from_bytes;
};

struct Product {
  Kind kind;
  void* sums;
  int columns;
  unsigned long long a, b;
};

/// What a thread has asked for and nobody has done yet.
template <class Item>
struct Queue {
  std::vector<Item> items;     // oldest first
  std::vector<size_t> groups;  // how many items each committed group has

  void clear() { items.clear(), groups.clear(); }
  void commit() {
    size_t n = items.size();
    for (size_t g : groups) n -= g;
    groups.push_back(n);
  }
  /// Does all groups but the newest `pending`; below 0 also what was not committed.
  template <class Do>
  void wait(int pending, Do do_item) {
    const auto done = groups.end() - std::min(std::ptrdiff_t(groups.size()), std::ptrdiff_t(std::max(pending, 0)));
    const auto n = pending < 0 ? std::ptrdiff_t(items.size()) : std::ptrdiff_t(std::accumulate(groups.begin(), done, size_t(0)));
    std::for_each(items.begin(), items.begin() + n, do_item);
    items.erase(items.begin(), items.begin() + n);
    groups.erase(groups.begin(), done);
  }
};

struct Thread {
  Context context;
  Kind kind;  // where it waits, if it does
  unsigned mask, line;
  Queue<Copy> copies;
  Queue<Product> products;
  bool unfenced = false;  // copies have landed of which the asynchronous proxy need not know
};

struct Access {
  Kind kind;
  unsigned line, occurrence, lane;  // occurrence: this lane's at this line since all lanes last met
  uintptr_t address;
  unsigned bytes;
};

struct Counter {
  Kind kind;
  unsigned line;
  unsigned of_lane[kWarp];
};

struct Warp {
  unsigned all = 0, ready = 0, waiting = 0, ended = 0;  // lanes; waiting: for their warp, not for the block
  Exchange exchange[kWarp];
  std::vector<Access> accesses;
  std::vector<Counter> counters;
};

struct Machine {
  bool running = false;
  void (*call)(void*) = nullptr;
  void* context = nullptr;
  Options options;
  Result* result = nullptr;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  int current = 0, at_barrier = 0, ended = 0;
  unsigned barrier_line = 0;
  Context main;
  Context* from = nullptr;  // the last that was left
  unsigned char *shared = nullptr, *shared_end = nullptr, *dynamic = nullptr;
  size_t dynamic_bytes = 0;
  char* stacks = nullptr;  // of all threads, a page that cannot be touched below each
  size_t stack_bytes = 0, n_stacks = 0;
} m;

const char* name(Kind kind) {
  switch (kind) {
    case Kind::syncthreads:
      return "__syncthreads";
    case Kind::syncwarp:
      return "__syncwarp";
    case Kind::shfl:
      return "__shfl_sync";
    case Kind::shfl_up:
      return "__shfl_up_sync";
    case Kind::shfl_down:
      return "__shfl_down_sync";
    case Kind::shfl_xor:
      return "__shfl_xor_sync";
    case Kind::ballot:
      return "a vote";
    case Kind::ldmatrix:
      return "ldmatrix";
    case Kind::mma_f16:
      return "mma_m16n8k16_f16";
    case Kind::mma_bf16:
      return "mma_m16n8k16_bf16";
    case Kind::mma_tf32:
      return "mma_m16n8k8_tf32";
    case Kind::mma_s8:
    case Kind::mma_u8s8:
    case Kind::mma_u8:
      return "mma_m16n8k32_s8";
    case Kind::cp_async:
      return "cp.async";
    case Kind::load:
      return "smem_get";
    case Kind::store:
      return "smem_put";
  }
  return "";
}

// ---- Fibers

void arrived(Context& self) {
#ifdef GPU_SHIM_ASAN
  const void* bottom;
  size_t size;
  __sanitizer_finish_switch_fiber(self.fake_stack, &bottom, &size);
  if (m.from == &m.main) m.main.bottom = bottom, m.main.size = size;
#else
  (void)self;
#endif
}

/// `ends`: nobody will come back to `from`.
void go(Context& from, Context& to, bool ends = false) {
  m.from = &from;
#ifdef GPU_SHIM_ASAN
  __sanitizer_start_switch_fiber(ends ? nullptr : &from.fake_stack, to.bottom, to.size);
#else
  (void)ends;
#endif
#ifdef GPU_SHIM_UCONTEXT
  swapcontext(&from.registers, &to.registers);
#else
  gpu_shim_switch(&from.stack_pointer, to.stack_pointer);
#endif
  arrived(from);
}

/// Ends the launch, from within a thread. What the callers own is not released: they must own nothing.
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char* format, ...) {
  char* error = m.result->error;
  const int n = std::snprintf(error, sizeof m.result->error, "block %u, thread %d: ", blockIdx.x, m.current);
  va_list list;
  va_start(list, format);
  std::vsnprintf(error + n, sizeof m.result->error - size_t(n), format, list);
  va_end(list);
  go(m.threads[size_t(m.current)].context, m.main, true);
  __builtin_unreachable();
}

/// Who waits for what, when nobody can go on.
void who_waits(char* text, size_t size) {
  struct Group {
    Kind kind;
    unsigned mask, line;
    int first, count;
  };
  std::vector<Group> groups;
  for (int t = 0; t < int(m.threads.size()); ++t) {
    const Thread& thread = m.threads[size_t(t)];
    if (m.warps[size_t(t / kWarp)].ended >> t % kWarp & 1) continue;
    const auto same = [&](const Group& g) { return g.kind == thread.kind && g.line == thread.line && g.mask == thread.mask; };
    const auto g = std::find_if(groups.begin(), groups.end(), same);
    if (g != groups.end())
      ++g->count;
    else
      groups.push_back({thread.kind, thread.mask, thread.line, t, 1});
  }
  size_t at = 0;
  const auto add = [&](const char* format, auto... values) {
    at = std::min(size - 1, at + size_t(std::snprintf(text + at, size - at, format, values...)));
  };
  for (size_t i = 0; i < groups.size() && i < 4; ++i) {
    const Group& g = groups[i];
    add("%d threads (the first is %d) wait at %s in line %u", g.count, g.first, name(g.kind), g.line);
    if (g.kind != Kind::syncthreads && g.mask != 0xffffffffu) add(" with mask 0x%x", g.mask);
    add("%s", ", ");
  }
  add("%d of %d have ended", m.ended, int(m.threads.size()));
}

unsigned lanes_above(int lane) { return lane >= 31 ? 0 : ~0u << (lane + 1); }
unsigned lanes_below(int lane) { return (1u << lane) - 1; }
int lowest(unsigned lanes) { return __builtin_ctz(lanes); }
int highest(unsigned lanes) { return 31 - __builtin_clz(lanes); }

/// The ready thread that follows `t` in the order of threads or its reverse, around the end; -1: none is ready.
int ready_after(int t, bool reversed) {
  const int n = int(m.warps.size()), own = t / kWarp;
  for (int k = 0; k <= n; ++k) {
    const int w = (own + (reversed ? n - k : k)) % n;
    unsigned lanes = m.warps[size_t(w)].ready;
    if (k == 0) lanes &= reversed ? lanes_below(t % kWarp) : lanes_above(t % kWarp);
    if (lanes) return w * kWarp + (reversed ? highest(lanes) : lowest(lanes));
  }
  return -1;
}

int next_thread() {
  const Schedule s = m.options.schedule;
  const bool reversed = s == Schedule::reversed || s == Schedule::warp_greedy_reversed;
  if (s == Schedule::warp_greedy || s == Schedule::warp_greedy_reversed) {
    const int w = m.current / kWarp;
    if (const unsigned lanes = m.warps[size_t(w)].ready) {
      const unsigned rest = lanes & (reversed ? lanes_below(m.current % kWarp) : lanes_above(m.current % kWarp));
      return w * kWarp + (reversed ? highest(rest ? rest : lanes) : lowest(rest ? rest : lanes));
    }
  }
  return ready_after(m.current, reversed);
}

/// The current thread waits or has ended, or it is another's turn.
void yield(bool ends = false) {
  Context& self = m.threads[size_t(m.current)].context;
  const int next = next_thread();
  if (next < 0) {
    if (m.ended < int(m.threads.size())) {
      char text[500];
      who_waits(text, sizeof text);
      fail("divergence: %s", text);
    }
    go(self, m.main, true);
  } else if (next != m.current) {
    m.current = next, threadIdx.x = unsigned(next);
    go(self, m.threads[size_t(next)].context, ends);
  }
}

void thread_main() {
  arrived(m.threads[size_t(m.current)].context);
  m.call(m.context);
  if (const size_t n = m.threads[size_t(m.current)].copies.items.size();
      n > 0 && m.result->ok())  // its results are of interest all the same
    std::snprintf(m.result->error, sizeof m.result->error,
                  "block %u, thread %d ended with %zu asynchronous copies that it did not wait for", blockIdx.x, m.current, n);
  Warp& w = m.warps[size_t(m.current / kWarp)];
  w.ready &= ~(1u << m.current % kWarp), w.ended |= 1u << m.current % kWarp;
  ++m.ended;
  yield(true);
  __builtin_unreachable();
}

void make_stacks(size_t n, size_t bytes) {
  if (n <= m.n_stacks && bytes == m.stack_bytes) return;
  if (m.stacks) munmap(m.stacks, m.n_stacks * m.stack_bytes);
  m.n_stacks = n, m.stack_bytes = bytes;
  void* p = mmap(nullptr, n * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  m.stacks = p == MAP_FAILED ? nullptr : static_cast<char*>(p);
  for (size_t i = 0; m.stacks && i < n; ++i) mprotect(m.stacks + i * bytes, 4096, PROT_NONE);
}

/// A thread at its beginning, on its own stack.
void prepare(Context& c, char* stack) {
  c.bottom = stack + 4096, c.size = m.stack_bytes - 4096;
  c.fake_stack = nullptr;
#ifdef GPU_SHIM_ASAN
  __asan_unpoison_memory_region(c.bottom, c.size);  // its last thread may have been left in the middle
#endif
#ifdef GPU_SHIM_UCONTEXT
  getcontext(&c.registers);
  c.registers.uc_stack.ss_sp = stack + 4096;
  c.registers.uc_stack.ss_size = c.size;
  c.registers.uc_link = nullptr;
  makecontext(&c.registers, thread_main, 0);
#else
  // As gpu_shim_switch leaves a stack, with zeros as the caller's frame; the ABI wants 16-byte alignment before a call.
  void** words = reinterpret_cast<void**>(stack + m.stack_bytes) - 32;
  std::fill(words, words + 32, nullptr);
#if defined(__x86_64__)
  words[8] = reinterpret_cast<void*>(&thread_main);  // the word after is its return address: 0
  c.stack_pointer = words + 8 - kSavedWords;
#else
  words[kSavedWords - 1] = reinterpret_cast<void*>(&thread_main);
  c.stack_pointer = words;
#endif
#endif
}

// ---- Bank conflicts: 32 banks of 4 bytes, a pass moves a word of each; accesses of 8 and 16 bytes go by half and quarter warps.

void count(Kind kind, unsigned line, unsigned long long conflicts) {
  Result& r = *m.result;
  r.bank_conflicts += conflicts;
  Site* const end = r.sites + r.n_sites;
  Site* s = std::find_if(r.sites, end, [&](const Site& x) { return x.line == line && std::strcmp(x.what, name(kind)) == 0; });
  if (s == end) {
    if (r.n_sites == int(std::size(r.sites))) return;
    ++r.n_sites;
    *s = {name(kind), line, 0, 0};
  }
  ++s->instructions;
  s->conflicts += conflicts;
}

/// Passes beyond the first for addresses that go together.
unsigned long long conflicts_of(const uintptr_t* addresses, int n, unsigned bytes) {
  uintptr_t words[2 * kWarp];
  int n_words = 0, in_bank[kWarp] = {}, most = 1;
  for (int i = 0; i < n; ++i)
    for (uintptr_t w = addresses[i] / 4; w <= (addresses[i] + bytes - 1) / 4 && n_words < 2 * kWarp; ++w) words[n_words++] = w;
  std::sort(words, words + n_words);
  const auto distinct = std::unique(words, words + n_words) - words;
  for (int i = 0; i < distinct; ++i) most = std::max(most, ++in_bank[words[i] % kWarp]);
  return static_cast<unsigned long long>(most - 1);
}

/// The lanes of a warp have met: what they did since they last met is put together by line and occurrence to instructions.
void count_accesses(Warp& w) {
  if (w.accesses.empty()) return;
  const auto key = [](const Access& a) { return std::make_tuple(int(a.kind), a.line, a.occurrence, a.lane); };
  std::sort(w.accesses.begin(), w.accesses.end(), [&](const Access& a, const Access& b) { return key(a) < key(b); });
  for (size_t i = 0; i < w.accesses.size();) {
    const Access& first = w.accesses[i];
    const unsigned lanes = first.bytes <= 4 ? 32 : first.bytes <= 8 ? 16 : 8;
    unsigned long long conflicts = 0;
    uintptr_t addresses[kWarp];
    int n = 0;
    unsigned phase = 0;
    for (; i < w.accesses.size(); ++i) {
      const Access& a = w.accesses[i];
      if (a.kind != first.kind || a.line != first.line || a.occurrence != first.occurrence) break;
      if (a.lane / lanes != phase) {
        conflicts += conflicts_of(addresses, n, first.bytes);
        n = 0, phase = a.lane / lanes;
      }
      addresses[n++] = a.address;
    }
    count(first.kind, first.line, conflicts + conflicts_of(addresses, n, first.bytes));
  }
  w.accesses.clear();
  w.counters.clear();
}

bool is_shared(const void* p, size_t bytes) {
  const auto in = [&](const unsigned char* begin, const unsigned char* end) {
    return reinterpret_cast<uintptr_t>(p) >= reinterpret_cast<uintptr_t>(begin) &&
           reinterpret_cast<uintptr_t>(p) + bytes <= reinterpret_cast<uintptr_t>(end);
  };
  return in(m.shared, m.shared_end) || in(m.dynamic, m.dynamic + m.dynamic_bytes);
}

bool aligned(const void* p, size_t to) { return reinterpret_cast<uintptr_t>(p) % to == 0; }

// ---- What a warp does together

/// PTX ISA, shfl: lanes beyond the segment, in the direction of the exchange, give a lane its own value.
int shuffle_source(Kind kind, int lane, unsigned operand, unsigned width) {
  const int b = int(operand & 31), first = lane & ~int(width - 1), last = first + int(width) - 1;
  switch (kind) {
    case Kind::shfl:
      return first | (b & int(width - 1));
    case Kind::shfl_up:
      return lane - b >= first ? lane - b : lane;
    case Kind::shfl_down:
      return lane + b <= last ? lane + b : lane;
    default:
      return (lane ^ b) <= last ? lane ^ b : lane;
  }
}

void shuffle_lanes(Warp& w, Kind kind, unsigned mask) {
  for (int lane = 0; lane < kWarp; ++lane) {
    if (!(mask >> lane & 1)) continue;
    Exchange& x = w.exchange[lane];
    const unsigned width = x.in[3];
    if (width == 0 || width > 32 || (width & (width - 1))) fail("%s: the width %u is no power of 2 up to 32", name(kind), width);
    const int source = shuffle_source(kind, lane, x.in[2], width);
    const bool defined = mask >> source & 1;
    for (int i = 0; i < 2; ++i) x.out[i] = defined ? w.exchange[source].in[i] : 0xffffffffu;
  }
}

/// PTX ISA, ldmatrix: "each thread holds a fragment": see `ldsm4`.
void gather_matrices(Warp& w, unsigned line) {
  const unsigned n = w.exchange[0].in[0];
  unsigned long long conflicts = 0;
  for (unsigned i = 0; i < n; ++i) {
    uintptr_t rows[8];
    for (unsigned j = 0; j < 8; ++j) {
      const void* row = w.exchange[8 * i + j].row;
      if (!is_shared(row, 16)) fail("ldmatrix in line %u: lane %u's row is not in shared memory", line, 8 * i + j);
      if (!aligned(row, 16)) fail("ldmatrix in line %u: lane %u's row is not aligned to 16 bytes", line, 8 * i + j);
      rows[j] = reinterpret_cast<uintptr_t>(row);
    }
    conflicts += conflicts_of(rows, 8, 16);
    for (int lane = 0; lane < kWarp; ++lane) {
      uint16_t e[2];
      const int long_side = lane / 4, short_side = 2 * (lane % 4);
      for (int k = 0; k < 2; ++k) {
        const bool transposed = w.exchange[0].in[1];
        const int row = transposed ? short_side + k : long_side, column = transposed ? long_side : short_side + k;
        std::memcpy(&e[k], static_cast<const char*>(w.exchange[8 * i + unsigned(row)].row) + 2 * column, 2);
      }
      w.exchange[lane].out[i] = e[0] | unsigned(e[1]) << 16;
    }
  }
  count(Kind::ldmatrix, line, conflicts);
}

double widen_f16(unsigned h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  double v = exponent == 0    ? std::ldexp(fraction, -24)
             : exponent == 31 ? (fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity())
                              : std::ldexp(1024 + fraction, exponent - 25);
  return h & 0x8000 ? -v : v;
}

/// Element j of a register.
bool of_bytes(Kind kind) { return kind >= Kind::mma_s8 && kind <= Kind::mma_u8; }
/// The j-th value of a word of the first factor, or the second.
double element(Kind kind, unsigned word, int j, bool second = false) {
  switch (kind) {
    case Kind::mma_f16:
      return widen_f16(word >> 16 * j & 0xffff);
    case Kind::mma_bf16:
      return double(bits<float>(j ? word & 0xffff0000u : word << 16));
    case Kind::mma_tf32:
      return double(bits<float>(word & 0xffffe000u));
    default:
      return kind == Kind::mma_u8 || (kind == Kind::mma_u8s8 && !second) ? double(word >> 8 * j & 255)
                                                                         : double(static_cast<signed char>(word >> 8 * j));
  }
}

/// PTX ISA, "Matrix multiply-accumulate operation using mma instruction", figures of the fragments of m16n8k16 (.f16, .bf16), m16n8k8
/// (.tf32), m16n8k32 (.s8). They are one layout of registers with E elements of 32/E bits, with g = lane / 4 (groupID) and
/// t = lane % 4 (threadID_in_group):
///   A (16 × 8E): element j of register r is at row g + 8·(r odd), column t·E + j, + 4E for r ≥ 2;
///   B (8E × 8):  element j of register r is at row t·E + j + 4E·r, column g;
///   C (16 × 8):  register r is at row g + 8·(r ≥ 2), column 2t + (r odd).
void multiply_fragments(Warp& w, Kind kind) {
  const int e = kind == Kind::mma_tf32 ? 1 : of_bytes(kind) ? 4 : 2;
  double a[16][32], b[32][8];
  for (int lane = 0; lane < kWarp; ++lane) {
    const int g = lane / 4, t = lane % 4;
    const unsigned* in = w.exchange[lane].in;
    for (int j = 0; j < e; ++j) {
      for (int r = 0; r < 4; ++r) a[g + 8 * (r & 1)][t * e + j + 4 * e * (r / 2)] = element(kind, in[r], j);
      for (int r = 0; r < 2; ++r) b[t * e + j + 4 * e * r][g] = element(kind, in[4 + r], j, true);
    }
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    Exchange& x = w.exchange[lane];
    for (int r = 0; r < 4; ++r) {
      const int row = lane / 4 + 8 * (r / 2), column = 2 * (lane % 4) + (r & 1);
      double sum = 0;
      for (int k = 0; k < 8 * e; ++k) sum += a[row][k] * b[k][column];
      x.out[r] = of_bytes(kind) ? x.in[8 + r] + unsigned(int(sum)) : bits<unsigned>(float(double(bits<float>(x.in[8 + r])) + sum));
    }
  }
}

void land(const Copy& c) {
  std::memcpy(c.to, c.from, c.from_bytes);
  std::memset(static_cast<char*>(c.to) + c.from_bytes, 0, c.bytes - c.from_bytes);
}

/// The word at `byte` of row `row` of a staged factor: eight rows of 64 bytes, then the next eight; bits 4 and 5 of an address are changed
/// by bits 7 and 8 (the swizzle of 64 bytes).
unsigned staged_word(unsigned long long descriptor, int row, int byte) {
  size_t at = size_t(descriptor & 0x3fff) << 4;
  at += size_t(row / 8) * (size_t(descriptor >> 32 & 0x3fff) << 4) + size_t(row % 8) * 64 + size_t(byte);
  at ^= (at >> 7 & 3) << 4;
  unsigned word = 0;
  if (at + 4 <= m.dynamic_bytes) std::memcpy(&word, m.dynamic + at, 4);
  return word;
}

/// This thread's sums: rows g and g + 8 of its warp's 16, two neighbouring columns of every 8.
void multiply_staged(const Product& p) {
  const int thread = int(threadIdx.x), lane = thread % kWarp, per_word = p.kind == Kind::mma_s8 ? 4 : 2;
  for (int j = 0; j < p.columns / 8; ++j)
    for (int r = 0; r < 4; ++r) {
      const int row = thread / kWarp % 4 * 16 + lane / 4 + 8 * (r / 2), column = 8 * j + 2 * (lane % 4) + (r & 1);
      double sum = 0;
      for (int byte = 0; byte < 32; byte += 4) {
        const unsigned x = staged_word(p.a, row, byte), y = staged_word(p.b, column, byte);
        for (int k = 0; k < per_word; ++k) sum += element(p.kind, x, k) * element(p.kind, y, k);
      }
      if (p.kind == Kind::mma_s8) {
        unsigned* const d = static_cast<unsigned*>(p.sums) + 4 * j + r;
        *d += unsigned(int(sum));
      } else {
        float* const d = static_cast<float*>(p.sums) + 4 * j + r;
        *d = float(double(*d) + sum);
      }
    }
}

// ---- Blocks

void poison_shared() {
#ifdef GPU_SHIM_ASAN
  __asan_unpoison_memory_region(m.dynamic, kDynamicCapacity + kGuard);
#endif
  std::memset(m.shared, kPoison, size_t(m.shared_end - m.shared));
  std::memset(m.dynamic, kPoison, m.dynamic_bytes);
  std::memset(m.dynamic + m.dynamic_bytes, kGuardByte, kGuard);
#ifdef GPU_SHIM_ASAN
  __asan_poison_memory_region(m.dynamic + m.dynamic_bytes, kDynamicCapacity + kGuard - m.dynamic_bytes);
#endif
}

bool guard_intact() {
#ifdef GPU_SHIM_ASAN
  __asan_unpoison_memory_region(m.dynamic, kDynamicCapacity + kGuard);
#endif
  const unsigned char* guard = m.dynamic + m.dynamic_bytes;
  return std::all_of(guard, guard + kGuard, [](unsigned char c) { return c == kGuardByte; });
}

void run_block() {
  const int n = int(m.threads.size());
  for (int t = 0; t < n; ++t) {
    Thread& thread = m.threads[size_t(t)];
    prepare(thread.context, m.stacks + size_t(t) * m.stack_bytes);
    thread.copies.clear(), thread.products.clear(), thread.unfenced = false;
  }
  for (size_t w = 0; w < m.warps.size(); ++w) {
    const int lanes = std::min(kWarp, n - int(w) * kWarp);
    m.warps[w].all = m.warps[w].ready = lanes == kWarp ? ~0u : lanes_below(lanes);
    m.warps[w].waiting = m.warps[w].ended = 0;
    m.warps[w].accesses.clear();
    m.warps[w].counters.clear();
  }
  m.at_barrier = m.ended = 0;
  const bool reversed = m.options.schedule == Schedule::reversed || m.options.schedule == Schedule::warp_greedy_reversed;
  m.current = reversed ? n - 1 : 0, threadIdx.x = unsigned(m.current);
  poison_shared();
  go(m.main, m.threads[size_t(m.current)].context);
  for (Warp& w : m.warps) count_accesses(w);
  if (!guard_intact() && m.result->ok())
    std::snprintf(m.result->error, sizeof m.result->error, "block %u wrote past its %zu bytes of dynamic shared memory", blockIdx.x,
                  m.dynamic_bytes);
}

template <size_t... I>
#ifdef __clang__
__attribute__((no_sanitize("function")))  // the kernel's parameters are other pointers than these
#endif
void call_with(const void* kernel, void* const* args, std::index_sequence<I...>) {
  reinterpret_cast<void (*)(decltype((void)I, static_cast<void*>(nullptr))...)>(reinterpret_cast<uintptr_t>(kernel))(args[I]...);
}

template <size_t... N>
void call_one_of(const void* kernel, void* const* args, int n, std::index_sequence<N...>) {
  (void)args;
  ((n == int(N) ? call_with(kernel, args, std::make_index_sequence<N>()) : void()), ...);
}

}  // namespace

// ---- What threads call

Exchange& exchange() { return m.warps[size_t(m.current / kWarp)].exchange[m.current % kWarp]; }

void warp_meet(Kind kind, unsigned mask, unsigned line) {
  const int lane = m.current % kWarp, first = m.current - lane;
  Warp& w = m.warps[size_t(first / kWarp)];
  if (!(mask >> lane & 1)) fail("%s in line %u: lane %d is not in its own mask 0x%x", name(kind), line, lane, mask);
  if (kind >= Kind::ldmatrix && w.all != ~0u) fail("%s in line %u needs a whole warp", name(kind), line);
  mask &= w.all;  // the lanes that the last warp of the block lacks
  Thread& self = m.threads[size_t(m.current)];
  self.kind = kind, self.mask = mask, self.line = line;
  w.ready &= ~(1u << lane), w.waiting |= 1u << lane;
  bool complete = (w.waiting & mask) == mask;
  for (int i = 0; complete && i < kWarp; ++i)
    if (mask >> i & 1) {
      const Thread& other = m.threads[size_t(first + i)];
      complete = other.kind == kind && other.mask == mask && other.line == line;
    }
  if (complete) {
    if (kind >= Kind::mma_f16)
      multiply_fragments(w, kind);
    else if (kind == Kind::ldmatrix)
      gather_matrices(w, line);
    else if (kind == Kind::ballot) {
      unsigned yes = 0;
      for (int i = 0; i < kWarp; ++i) yes |= (mask >> i & 1 & w.exchange[i].in[0]) << i;
      for (Exchange& x : w.exchange) x.out[0] = yes;
    } else if (kind != Kind::syncwarp) {
      shuffle_lanes(w, kind, mask);
    }
    w.waiting &= ~mask, w.ready |= mask;
    if (mask == w.all) count_accesses(w);
  }
  yield();
}

void block_meet(unsigned line) {
  const int lane = m.current % kWarp;
  Warp& own = m.warps[size_t(m.current / kWarp)];
  if (m.at_barrier > 0 && m.barrier_line != line)
    fail("divergence: __syncthreads in line %u, where others wait at the one in line %u", line, m.barrier_line);
  Thread& self = m.threads[size_t(m.current)];
  self.kind = Kind::syncthreads, self.mask = 0, self.line = m.barrier_line = line;
  own.ready &= ~(1u << lane);
  if (++m.at_barrier == int(m.threads.size())) {
    m.at_barrier = 0;
    for (Warp& w : m.warps) {
      w.ready = w.all;
      count_accesses(w);
    }
  }
  yield();
}

void copy_async(void* to, const void* from, unsigned bytes, unsigned from_bytes, unsigned line) {
  if (!is_shared(to, bytes)) fail("cp.async in line %u: the destination is not in shared memory", line);
  if (!aligned(to, bytes) || !aligned(from, bytes)) fail("cp.async in line %u: an address is not aligned to %u bytes", line, bytes);
  if (from_bytes > bytes) fail("cp.async in line %u: %u of %u bytes", line, from_bytes, bytes);
  note_access(Kind::cp_async, to, bytes, line);
  const Copy copy = {to, from, bytes, from_bytes};
  if (m.options.copies == Copies::eager)
    land(copy);
  else
    m.threads[size_t(m.current)].copies.items.push_back(copy);
}

void copy_commit() { m.threads[size_t(m.current)].copies.commit(); }

void copy_wait(int pending) {
  Thread& t = m.threads[size_t(m.current)];
  t.copies.wait(pending, land);
  t.unfenced = true;
}

void product_async(Kind kind, void* sums, int n, unsigned long long a, unsigned long long b, unsigned line) {
  Thread& t = m.threads[size_t(m.current)];
  if (m.threads.size() % (4 * kWarp)) fail("wgmma in line %u: the block is no whole number of groups of four warps", line);
  if (t.unfenced) fail("wgmma in line %u: no proxy fence since copies landed", line);
  for (unsigned long long d : {a, b})
    if (d >> 62 != 2 || (d >> 32 & 0x3fff) != 32) fail("wgmma in line %u: a descriptor that is not of swizzled rows of 64 bytes", line);
  const Product p = {kind, sums, n, a, b};
  if (m.options.copies == Copies::lazy)
    multiply_staged(p);
  else
    t.products.items.push_back(p);
}

void product_commit() { m.threads[size_t(m.current)].products.commit(); }

void product_wait(int pending) { m.threads[size_t(m.current)].products.wait(pending, multiply_staged); }

void proxy_fence() { m.threads[size_t(m.current)].unfenced = false; }

void note_access(Kind kind, const void* p, unsigned bytes, unsigned line) {
  if (!is_shared(p, bytes)) fail("%s in line %u: the address is not in shared memory", name(kind), line);
  Warp& w = m.warps[size_t(m.current / kWarp)];
  const unsigned lane = unsigned(m.current % kWarp);
  auto c = std::find_if(w.counters.begin(), w.counters.end(), [&](const Counter& x) { return x.kind == kind && x.line == line; });
  if (c == w.counters.end()) c = w.counters.insert(c, {kind, line, {}});
  w.accesses.push_back({kind, line, c->of_lane[lane]++, lane, reinterpret_cast<uintptr_t>(p), bytes});
}

void fail_at(const char* what, unsigned line) { fail("%s in line %u", what, line); }

unsigned char* dynamic_shared() { return m.dynamic; }

void call_pointers(const void* kernel, void* const* args, int n_args) {
  call_one_of(kernel, args, n_args, std::make_index_sequence<kMaxPointers + 1>());
}

Result launch_threads(void (*call)(void* context), void* context, long long grid, int block, long long shared_bytes, const Options& options,
                      unsigned char* shared, unsigned char* shared_end) {
  Result result;
  const auto refuse = [&](const char* why) {
    std::snprintf(result.error, sizeof result.error, "%s", why);
    return result;
  };
  if (m.running) return refuse("a launch within a launch");
  if (block < 1 || block > 1024 || grid < 1 || grid > 0x7fffffff) return refuse("a grid of 1 to 2^31 - 1 blocks of 1 to 1024 threads");
  if (shared_bytes < 0 || shared_bytes > static_cast<long long>(kDynamicCapacity)) return refuse("at most 232448 bytes of shared memory");
#ifdef GPU_SHIM_ASAN
  constexpr size_t kStack = 512 << 10;
#else
  constexpr size_t kStack = 128 << 10;
#endif
  make_stacks(size_t(block), options.stack_bytes ? (options.stack_bytes + 8191) / 4096 * 4096 : kStack);
  if (!m.stacks) return refuse("no memory for the threads' stacks");
  if (!m.dynamic) {
    alignas(1024) static unsigned char memory[kDynamicCapacity + kGuard];
    m.dynamic = memory;
  }
  m.running = true;
  m.call = call, m.context = context, m.options = options, m.result = &result;
  m.shared = shared, m.shared_end = shared_end, m.dynamic_bytes = size_t(shared_bytes);
  m.threads.resize(size_t(block));
  m.warps.resize(size_t(block + kWarp - 1) / kWarp);
  blockDim = {unsigned(block), 1, 1}, gridDim = {unsigned(grid), 1, 1};
  threadIdx = blockIdx = {0, 0, 0};
  for (long long b = 0; b < grid && result.ok(); ++b) {
    blockIdx.x = unsigned(b);
    run_block();
  }
  m.running = false;
  return result;
}

}  // namespace gpu_shim
