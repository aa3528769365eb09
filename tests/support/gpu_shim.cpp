// The machine under gpu_shim.h: fibers, rendezvous, asynchronous copies, shared memory, bank conflicts, fragments of matrices.
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
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
constexpr int kMaxCluster = 4;
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

/// A bulk copy to one block.
struct Bulk {
  Copy copy;
  int block;
  size_t barrier;
  int thread;  // that asked for it, in this line
  unsigned line;
  const TensorMap* map = nullptr;  // copies a box, that begins here
  int at[5] = {}, window[2] = {};
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

struct Barrier {
  size_t at;
  int thread;  // that initialised it, in this line
  unsigned line;
  int arrivals, pending;
  long long bytes = 0;  // expected; below 0: landed already
  int parity = 0;       // of the phase that is not complete
  bool published = false;
  std::vector<int> waiting = {};
};
constexpr int kMostArrivals = (1 << 20) - 1, kMostBytes = (1 << 20) - 1;  // PTX ISA, "Contents of the mbarrier object"
constexpr uint64_t kMark = 0x7d2f53a961c47a31;                            // a barrier's bytes: this plus its index

struct Meeting {
  int present = 0;
  unsigned line = 0;
};

struct Warp;

struct Block {
  unsigned index = 0;  // in the grid
  int ended = 0;       // threads
  Meeting meeting;
  unsigned char* dynamic = nullptr;
  Warp *warps = nullptr, *warps_end = nullptr;
  std::vector<Barrier> barriers;
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
  Block* block = nullptr;
  unsigned first = 0;                                   // thread of the block
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
  std::vector<Thread> threads;  // of all blocks of a cluster, for each as many as its warps could have
  std::vector<Warp> warps;
  std::vector<Block> blocks;
  std::deque<Bulk> bulk;                   // under way, oldest first
  int current = 0, ended = 0, woken = -1;  // woken: by a barrier, and first where the schedule is greedy
  Block* own = nullptr;                    // of the current thread
  Meeting meeting;                         // of the cluster
  Context main;
  Context* from = nullptr;  // the last that was left
  unsigned char *shared = nullptr, *shared_end = nullptr;
  size_t dynamic_bytes = 0;
  char* stacks = nullptr;  // of all threads, a page that cannot be touched below each
  size_t stack_bytes = 0, n_stacks = 0;
} m;

const char* name(Kind kind) {
  switch (kind) {
    case Kind::syncthreads:
      return "__syncthreads";
    case Kind::cluster_sync:
      return "cluster_sync";
    case Kind::barrier_wait:
      return "barrier_wait";
    case Kind::syncwarp:
      return "__syncwarp";
    case Kind::product_wait:
      return "wgmma_wait";
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

int threads_of_block() { return int(blockDim.x); }
int threads_of_all() { return threads_of_block() * int(m.blocks.size()); }

/// The current thread becomes this one, as far as others can see.
void enter(int thread) {
  const Warp& w = m.warps[size_t(thread / kWarp)];
  m.current = thread, m.own = w.block;
  threadIdx.x = w.first + unsigned(thread % kWarp), blockIdx.x = w.block->index;
}

/// Something is wrong, perhaps not for the first time; what the kernel computes is of interest all the same.
__attribute__((format(printf, 1, 2))) void report(const char* format, ...) {
  va_list list;
  va_start(list, format);
  if (m.result->ok()) std::vsnprintf(m.result->error, sizeof m.result->error, format, list);
  va_end(list);
}

/// Ends the launch, from within a thread. What the callers own is not released: they must own nothing.
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char* format, ...) {
  char text[sizeof m.result->error];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  report("block %u, thread %u: %s", blockIdx.x, threadIdx.x, text);
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
    const Warp& w = m.warps[size_t(t / kWarp)];
    if (!((w.all & ~w.ended) >> t % kWarp & 1)) continue;
    const auto same = [&](const Group& g) { return g.kind == thread.kind && g.line == thread.line && g.mask == thread.mask; };
    const auto g = std::find_if(groups.begin(), groups.end(), same);
    if (g != groups.end())
      ++g->count;
    else
      groups.push_back({thread.kind, thread.mask, thread.line, int(w.first) + t % kWarp, 1});
  }
  size_t at = 0;
  const auto add = [&](const char* format, auto... values) {
    at = std::min(size - 1, at + size_t(std::snprintf(text + at, size - at, format, values...)));
  };
  for (size_t i = 0; i < groups.size() && i < 4; ++i) {
    const Group& g = groups[i];
    add("%d threads (the first is %d) wait at %s in line %u", g.count, g.first, name(g.kind), g.line);
    if (g.kind >= Kind::syncwarp && g.mask != 0xffffffffu) add(" with mask 0x%x", g.mask);
    add("%s", ", ");
  }
  add("%d of %d have ended", m.ended, threads_of_all());
}

unsigned lanes_above(int lane) { return lane >= 31 ? 0 : ~0u << (lane + 1); }
unsigned lanes_below(int lane) { return (1u << lane) - 1; }
int lowest(unsigned lanes) { return __builtin_ctz(lanes); }
int highest(unsigned lanes) { return 31 - __builtin_clz(lanes); }

/// The ready thread that follows `t` in the order of threads or its reverse, around the end; -1: none is ready.
int ready_after(int t, bool reversed) {
  const int n = int(m.warps.size());
  int w = t / kWarp;
  unsigned among = reversed ? lanes_below(t % kWarp) : lanes_above(t % kWarp);
  for (int k = 0; k <= n; ++k, among = ~0u) {
    if (const unsigned lanes = m.warps[size_t(w)].ready & among) return w * kWarp + (reversed ? highest(lanes) : lowest(lanes));
    w = reversed ? (w == 0 ? n : w) - 1 : w + 1 == n ? 0 : w + 1;
  }
  return -1;
}

bool is_reversed() { return m.options.schedule == Schedule::reversed || m.options.schedule == Schedule::warp_greedy_reversed; }
bool is_greedy() { return m.options.schedule == Schedule::warp_greedy || m.options.schedule == Schedule::warp_greedy_reversed; }

int next_thread() {
  const bool reversed = is_reversed();
  if (is_greedy()) {
    if (m.woken >= 0) return std::exchange(m.woken, -1);
    const int w = m.current / kWarp;
    if (const unsigned lanes = m.warps[size_t(w)].ready) {
      const unsigned rest = lanes & (reversed ? lanes_below(m.current % kWarp) : lanes_above(m.current % kWarp));
      return w * kWarp + (reversed ? highest(rest ? rest : lanes) : lowest(rest ? rest : lanes));
    }
  }
  return ready_after(m.current, reversed);
}

void land_bulk(const Bulk& b);

/// The oldest bulk copy lands. The thread that asked for it is blamed for what goes wrong.
void land_oldest() {
  const Bulk oldest = m.bulk.front();
  m.bulk.pop_front();
  const int self = m.current;
  enter(oldest.thread);
  land_bulk(oldest);
  enter(self);
}

/// The current thread waits or has ended, or it is another's turn.
void yield(bool ends = false) {
  Context& self = m.threads[size_t(m.current)].context;
  int next = next_thread();
  while (next < 0 && m.ended < threads_of_all() && !m.bulk.empty()) {
    land_oldest();
    next = next_thread();
  }
  if (next < 0) {
    if (m.ended < threads_of_all()) {
      char text[500];
      who_waits(text, sizeof text);
      fail("divergence: %s", text);
    }
    go(self, m.main, true);
  } else if (next != m.current) {
    enter(next);
    go(self, m.threads[size_t(next)].context, ends);
  }
}

/// What is not over when the current thread's block ends: on a GPU its memory is soon another's.
void check_end_of_block() {
  const auto to_own = [](const Bulk& b) { return &m.blocks[size_t(b.block)] == m.own; };
  if (const auto b = std::find_if(m.bulk.begin(), m.bulk.end(), to_own); b != m.bulk.end())
    report("block %u ended with bulk copies into it under way, the first from line %u", blockIdx.x, b->line);
  for (const Barrier& b : m.own->barriers)
    if (b.bytes != 0)
      report("block %u ended with %lld bytes %s the barrier that line %u initialised", blockIdx.x, std::abs(b.bytes),
             b.bytes > 0 ? "outstanding at" : "more than were expected at", b.line);
}

void thread_main() {
  arrived(m.threads[size_t(m.current)].context);
  m.call(m.context);
  const Thread& self = m.threads[size_t(m.current)];
  if (const size_t n = self.copies.items.size(); n > 0)
    report("block %u, thread %u ended with %zu asynchronous copies that it did not wait for", blockIdx.x, threadIdx.x, n);
  if (const size_t n = self.products.items.size(); n > 0)
    report("block %u, thread %u ended with %zu asynchronous products that it did not wait for", blockIdx.x, threadIdx.x, n);
  Warp& w = m.warps[size_t(m.current / kWarp)];
  w.ready &= ~(1u << m.current % kWarp), w.ended |= 1u << m.current % kWarp;
  ++m.ended;
  if (++m.own->ended == threads_of_block()) check_end_of_block();
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

bool is_between(const void* p, size_t bytes, const unsigned char* begin, const unsigned char* end) {
  return reinterpret_cast<uintptr_t>(p) >= reinterpret_cast<uintptr_t>(begin) &&
         reinterpret_cast<uintptr_t>(p) + bytes <= reinterpret_cast<uintptr_t>(end);
}
bool is_dynamic(const void* p, size_t bytes) { return is_between(p, bytes, m.own->dynamic, m.own->dynamic + m.dynamic_bytes); }
bool is_shared(const void* p, size_t bytes) { return is_dynamic(p, bytes) || is_between(p, bytes, m.shared, m.shared_end); }

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
/// Values in a word.
int in_word(Kind kind) { return kind == Kind::mma_tf32 ? 1 : of_bytes(kind) ? 4 : 2; }

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
  const int e = in_word(kind);
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

// ---- Barriers and bulk copies

size_t barrier_place(const char* what, const void* b, unsigned line) {
  if (!is_dynamic(b, 8)) fail("%s in line %u: the barrier is not in dynamic shared memory", what, line);
  if (!aligned(b, 8)) fail("%s in line %u: the barrier is not aligned to 8 bytes", what, line);
  return size_t(static_cast<const unsigned char*>(b) - m.own->dynamic);
}

Barrier* find_barrier(Block& block, size_t at) {
  const auto b = std::find_if(block.barriers.begin(), block.barriers.end(), [&](const Barrier& x) { return x.at == at; });
  return b == block.barriers.end() ? nullptr : &*b;
}

/// Valid until another is initialised.
Barrier& barrier_at(const char* what, Block& block, size_t at, unsigned line) {
  if (block.ended == threads_of_block()) fail("%s in line %u: the block has ended", what, line);
  uint64_t word;
  std::memcpy(&word, block.dynamic + at, sizeof word);
  if (word - kMark < block.barriers.size() && block.barriers[word - kMark].at == at) return block.barriers[word - kMark];
  const Barrier* b = find_barrier(block, at);
  if (!b) fail("%s in line %u: there is no initialised barrier", what, line);
  fail("%s in line %u: the barrier that line %u initialised was overwritten", what, line, b->line);
}

/// As barrier_at, for what does not come from a thread of the block.
Barrier& published_barrier(const char* what, Block& block, size_t at, unsigned line) {
  Barrier& b = barrier_at(what, block, at, line);
  if (!b.published) fail("%s in line %u: no barriers_ready since line %u initialised the barrier", what, line, b.line);
  return b;
}

/// Something has come that the phase waits for: it may be complete.
void advance(Barrier& b) {
  if (b.pending > 0 || b.bytes != 0) return;
  b.pending = b.arrivals, b.parity ^= 1;
  if (b.waiting.empty()) return;
  m.woken = is_reversed() ? b.waiting.back() : b.waiting.front();
  for (int t : b.waiting) m.warps[size_t(t / kWarp)].ready |= 1u << t % kWarp;
  b.waiting.clear();
}

/// Of the tensor, at these coordinates but the first: a row of the innermost dimension; null beyond it.
const unsigned char* row_of(const TensorMap& map, const long long* at) {
  const unsigned char* from = map.base;
  for (unsigned d = 1; d < map.rank; ++d) {
    if (at[d] < 0 || at[d] >= (long long)map.extents[d]) return nullptr;
    from += at[d] * (long long)map.strides[d - 1];
  }
  return from;
}

/// To the nearest of 11 significant bits.
void round_to_tf32(unsigned char* at) {
  unsigned word;
  std::memcpy(&word, at, 4);
  if ((word & 0x7f800000u) != 0x7f800000u) word = (word + 0x1000) & 0xffffe000u;
  std::memcpy(at, &word, 4);
}

/// Rows of 128 bytes one after the other, the pieces of 16 bytes in each where the swizzle has them; zeros beyond the tensor.
void land_box(const Bulk& b) {
  const TensorMap& map = *b.map;
  const size_t in_row = map.box[0] * map.element_bytes;
  size_t rows = 1;
  for (unsigned d = 1; d < (map.pixels ? 2 : map.rank); ++d) rows *= map.box[d];
  auto* const to = static_cast<unsigned char*>(b.copy.to);
  long long pixel[5];
  std::copy(b.at, b.at + 5, pixel);
  for (size_t row = 0; row < rows; ++row) {
    long long at[5] = {};
    size_t rest = row;
    for (unsigned d = 1; d < map.rank; ++d) {
      at[d] = map.pixels ? pixel[d] + (d < 3 ? b.window[d - 1] : 0) : b.at[d] + (long long)(rest % map.box[d]);
      if (!map.pixels) rest /= map.box[d];
    }
    const unsigned char* const from = row_of(map, at);
    for (size_t byte = 0; byte < in_row; ++byte) {
      const long long x = b.at[0] + (long long)(byte / map.element_bytes);
      const size_t swizzled = row * in_row + (((byte / 16) ^ (row % 8)) * 16 + byte % 16);
      to[swizzled] =
          from && x >= 0 && x < (long long)map.extents[0] ? from[x * map.element_bytes + (long long)(byte % map.element_bytes)] : 0;
    }
    for (size_t byte = 0; byte < in_row && map.tf32; byte += 4) round_to_tf32(to + row * in_row + byte);
    if (!map.pixels) continue;
    // the next place: along the width, then the height, then the images
    for (unsigned d = 1; d < 3; ++d) {
      pixel[d] += map.steps[d - 1];
      if (pixel[d] < (long long)map.extents[d] + map.upper[d - 1]) break;
      pixel[d] = map.lower[d - 1];
      if (d == 2) ++pixel[3];
    }
  }
}

void land_bulk(const Bulk& b) {
  Block& block = m.blocks[size_t(b.block)];
  Barrier& barrier = published_barrier("a bulk copy", block, b.barrier, b.line);
  if (b.map)
    land_box(b);
  else
    land(b.copy);
  if ((barrier.bytes -= b.copy.bytes) < -kMostBytes) fail("a bulk copy in line %u: more bytes than a barrier can count", b.line);
  advance(barrier);
}

// ---- Asynchronous products

/// The bytes from one core matrix to the next, along k or to the next eight rows.
size_t k_distance(unsigned long long descriptor) { return size_t(descriptor >> 16 & 0x3fff) << 4; }
size_t row_distance(unsigned long long descriptor) { return size_t(descriptor >> 32 & 0x3fff) << 4; }
size_t stage_start(unsigned long long descriptor) { return size_t(descriptor & 0x3fff) << 4; }

/// Rows of 128 bytes with the swizzle of 128, as boxes bring them?
bool in_boxes(unsigned long long d) { return d >> 62 == 1; }

void check_descriptor(unsigned long long d, int rows, unsigned line) {
  const size_t eight = in_boxes(d) ? 1024 : 128;
  if ((d >> 46 & 0xffff) != 0 || (!in_boxes(d) && (d >> 62 != 0 || k_distance(d) == 0)) || row_distance(d) == 0)
    fail("wgmma in line %u: a descriptor that is neither of core matrices without swizzle nor of rows with that of 128 bytes", line);
  if (in_boxes(d) && (row_distance(d) != 1024 || stage_start(d) % 1024 >= 128))
    fail("wgmma in line %u: rows of 128 bytes that do not begin at a multiple of 1024", line);
  if ((in_boxes(d) ? stage_start(d) / eight * eight : stage_start(d)) + (in_boxes(d) ? 0 : k_distance(d)) +
          size_t(rows / 8 - 1) * row_distance(d) + eight >
      m.dynamic_bytes)
    fail("wgmma in line %u: a descriptor of more than dynamic shared memory", line);
}

/// PTX ISA, "Matrix Descriptor", along k. Without swizzle: core matrices of 8 rows of 16 bytes, two of them along k. With that of 128
/// bytes: pieces of 16 bytes change places with the number of their row of 128 bytes in shared memory.
void widen_row(Kind kind, unsigned long long descriptor, int row, double* to) {
  const size_t start =
      stage_start(descriptor) + size_t(row / 8) * row_distance(descriptor) + size_t(row % 8) * (in_boxes(descriptor) ? 128 : 16);
  for (size_t byte = 0; byte < 32; byte += 4) {
    size_t at = start + (in_boxes(descriptor) ? byte : byte / 16 * k_distance(descriptor) + byte % 16);
    if (in_boxes(descriptor)) at ^= at / 128 % 8 * 16;
    unsigned word;
    std::memcpy(&word, m.own->dynamic + at, 4);
    for (int j = 0; j < in_word(kind); ++j) *to++ = element(kind, word, j);
  }
}

/// This thread's sums: rows g and g + 8 of its warp's 16, two neighbouring columns of every 8.
void multiply_staged(const Product& p) {
  const int thread = int(threadIdx.x), lane = thread % kWarp, k_end = 8 * in_word(p.kind);
  double a[2][32], b[32];
  for (int r = 0; r < 2; ++r) widen_row(p.kind, p.a, thread / kWarp % 4 * 16 + lane / 4 + 8 * r, a[r]);
  for (int i = 0; i < p.columns / 4; ++i) {
    widen_row(p.kind, p.b, i / 2 * 8 + 2 * (lane % 4) + i % 2, b);
    for (int r = 0; r < 2; ++r) {
      const double sum = std::inner_product(b, b + k_end, a[r], 0.0);
      const int at = i / 2 * 4 + 2 * r + i % 2;
      if (p.kind == Kind::mma_s8) {
        static_cast<unsigned*>(p.sums)[at] += unsigned(int(sum));
      } else {
        float& d = static_cast<float*>(p.sums)[at];
        d = float(double(d) + sum);
      }
    }
  }
}

// ---- Blocks

/// All that a block may have, and the guard after what it has.
void unpoison_address_range(const Block& block) {
#ifdef GPU_SHIM_ASAN
  __asan_unpoison_memory_region(block.dynamic, kDynamicCapacity + kGuard);
#else
  (void)block;
#endif
}

void poison_shared() {
  std::memset(m.shared, kPoison, size_t(m.shared_end - m.shared));
  for (const Block& block : m.blocks) {
    unpoison_address_range(block);
    std::memset(block.dynamic, kPoison, m.dynamic_bytes);
    std::memset(block.dynamic + m.dynamic_bytes, kGuardByte, kGuard);
#ifdef GPU_SHIM_ASAN
    __asan_poison_memory_region(block.dynamic + m.dynamic_bytes, kDynamicCapacity + kGuard - m.dynamic_bytes);
#endif
  }
}

bool all_are(const unsigned char* begin, const unsigned char* end, unsigned char value) {
  return std::all_of(begin, end, [&](unsigned char c) { return c == value; });
}

void check_memory() {
  for (const Block& block : m.blocks) {
    unpoison_address_range(block);
    const unsigned char* const guard = block.dynamic + m.dynamic_bytes;
    if (!all_are(guard, guard + kGuard, kGuardByte))
      report("block %u wrote past its %zu bytes of dynamic shared memory", block.index, m.dynamic_bytes);
  }
  if (m.blocks.size() > 1 && !all_are(m.shared, m.shared_end, kPoison))
    report("block %u, in a cluster, has static shared memory: here all blocks have the same", m.blocks[0].index);
}

void make_warps() {
  for (Block& block : m.blocks)
    for (Warp* w = block.warps; w != block.warps_end; ++w) w->block = &block, w->first = unsigned(w - block.warps) * kWarp;
  for (Warp& w : m.warps) {
    const int lanes = std::min(kWarp, threads_of_block() - int(w.first));
    w.all = w.ready = lanes == kWarp ? ~0u : lanes_below(lanes);
    w.waiting = w.ended = 0;
    w.accesses.clear();
    w.counters.clear();
  }
}

/// The blocks of a cluster, from this one on.
void run_cluster(unsigned first) {
  for (size_t t = 0; t < m.threads.size(); ++t) {
    Thread& thread = m.threads[t];
    prepare(thread.context, m.stacks + t * m.stack_bytes);
    thread.copies.clear(), thread.products.clear(), thread.unfenced = false;
  }
  for (size_t i = 0; i < m.blocks.size(); ++i) {
    Block& block = m.blocks[i];
    block.index = first + unsigned(i), block.ended = 0, block.meeting = {};
    block.warps = &m.warps[i * (m.warps.size() / m.blocks.size())];
    block.warps_end = block.warps + m.warps.size() / m.blocks.size();
    block.barriers.clear();
  }
  make_warps();
  m.bulk.clear();
  m.ended = 0, m.meeting = {}, m.woken = -1;
  enter(is_reversed() ? int(m.warps.size() - 1) * kWarp + highest(m.warps.back().all) : 0);
  poison_shared();
  go(m.main, m.threads[size_t(m.current)].context);
  for (Warp& w : m.warps) count_accesses(w);
  check_memory();
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
    } else if (kind > Kind::product_wait) {
      shuffle_lanes(w, kind, mask);
    }
    w.waiting &= ~mask, w.ready |= mask;
    if (mask == w.all) count_accesses(w);
  }
  yield();
}

/// All threads of some warps, `n`, meet.
static void meet(Kind kind, Meeting& meeting, Warp* warps, const Warp* end, int n, unsigned line) {
  // barrier.cluster, unlike __syncthreads, is no matter of the place in the program
  if (meeting.present > 0 && meeting.line != line && kind != Kind::cluster_sync)
    fail("divergence: %s in line %u, where others wait at the one in line %u", name(kind), line, meeting.line);
  Thread& self = m.threads[size_t(m.current)];
  self.kind = kind, self.mask = 0, self.line = meeting.line = line;
  m.warps[size_t(m.current / kWarp)].ready &= ~(1u << m.current % kWarp);
  if (++meeting.present == n) {
    meeting.present = 0;
    for (Warp* w = warps; w != end; ++w) {
      w->ready = w->all;
      count_accesses(*w);
    }
  }
  yield();
}

void block_meet(unsigned line) { meet(Kind::syncthreads, m.own->meeting, m.own->warps, m.own->warps_end, threads_of_block(), line); }

void cluster_meet(unsigned line) {
  meet(Kind::cluster_sync, m.meeting, m.warps.data(), m.warps.data() + m.warps.size(), threads_of_all(), line);
}

const void* of_block(const void* p, unsigned bytes, int rank, unsigned line) {
  constexpr const char* kWhat = "smem_get_at";
  if (rank < 0 || rank >= int(m.blocks.size())) fail("%s in line %u: block %d of a cluster of %zu", kWhat, line, rank, m.blocks.size());
  if (!is_dynamic(p, bytes) || !aligned(p, bytes)) fail("%s in line %u: no aligned place in dynamic shared memory", kWhat, line);
  const Block& block = m.blocks[size_t(rank)];
  if (block.ended == threads_of_block()) fail("%s in line %u: block %u has ended", kWhat, line, block.index);
  return block.dynamic + (static_cast<const unsigned char*>(p) - m.own->dynamic);
}

void barrier_begin(void* b, int arrivals, unsigned line) {
  const size_t at = barrier_place("barrier_init", b, line);
  if (arrivals < 1 || arrivals > kMostArrivals) fail("barrier_init in line %u: %d arrivals", line, arrivals);
  if (const Barrier* old = find_barrier(*m.own, at)) fail("barrier_init in line %u: line %u has initialised the barrier", line, old->line);
  const uint64_t word = kMark + m.own->barriers.size();
  std::memcpy(b, &word, sizeof word);
  m.own->barriers.push_back({at, m.current, line, arrivals, arrivals});
}

void barriers_publish() {
  for (Barrier& b : m.own->barriers) b.published = b.published || b.thread == m.current;
}

void barrier_come(const char* what, void* b, int rank, int bytes, unsigned line) {
  const size_t at = barrier_place(what, b, line);
  if (m.threads[size_t(m.current)].unfenced) fail("%s in line %u: no proxy fence since copies landed", what, line);
  if (rank >= int(m.blocks.size())) fail("%s in line %u: block %d of a cluster of %zu", what, line, rank, m.blocks.size());
  Block& block = rank < 0 ? *m.own : m.blocks[size_t(rank)];
  Barrier& barrier = &block == m.own ? barrier_at(what, block, at, line) : published_barrier(what, block, at, line);
  if (barrier.pending == 0) fail("%s in line %u: all %d arrivals of the phase have come", what, line, barrier.arrivals);
  if (bytes < 0 || (barrier.bytes += bytes) > kMostBytes) fail("%s in line %u: bytes that a barrier cannot count", what, line);
  --barrier.pending;
  advance(barrier);
  if (bytes == 0) yield();  // others may be ahead of what this thread does next; copies that it expects are not held up
}

void barrier_pass(void* b, int parity, unsigned line) {
  const size_t at = barrier_place("barrier_wait", b, line);
  if (parity != 0 && parity != 1) fail("barrier_wait in line %u: a parity of %d", line, parity);
  Thread& self = m.threads[size_t(m.current)];
  self.kind = Kind::barrier_wait, self.mask = 0, self.line = line;
  for (bool waited = false;; waited = true) {  // again when the phase was complete: the next but one may have begun
    Barrier& barrier = barrier_at("barrier_wait", *m.own, at, line);
    if (barrier.parity != parity) {
      if (!waited) yield();  // who has waited goes on at once: a copy that comes too early comes as early as can be
      return;
    }
    m.warps[size_t(m.current / kWarp)].ready &= ~(1u << m.current % kWarp);
    barrier.waiting.push_back(m.current);
    yield();
  }
}

void copy_bulk(void* to, const void* from, int bytes, void* b, int blocks, unsigned line) {
  constexpr const char* kWhat = "a bulk copy";
  const size_t at = barrier_place(kWhat, b, line);
  if (bytes < 16 || bytes % 16) fail("%s in line %u: %d bytes", kWhat, line, bytes);
  if (!is_dynamic(to, size_t(bytes))) fail("%s in line %u: the destination is not in dynamic shared memory", kWhat, line);
  if (!aligned(to, 16) || !aligned(from, 16)) fail("%s in line %u: an address is not aligned to 16 bytes", kWhat, line);
  if (blocks > int(m.blocks.size())) fail("%s in line %u: to %d blocks of a cluster of %zu", kWhat, line, blocks, m.blocks.size());
  const int own = int(m.own - m.blocks.data());
  for (int i = blocks ? 0 : own; i < (blocks ? blocks : own + 1); ++i) {
    Block& block = m.blocks[size_t(i)];
    published_barrier(kWhat, block, at, line);
    unsigned char* const there = block.dynamic + (static_cast<unsigned char*>(to) - m.own->dynamic);
    const Bulk bulk = {{there, from, unsigned(bytes), unsigned(bytes)}, i, at, m.current, line};
    if (m.options.copies == Copies::eager) {
      land_bulk(bulk);
    } else {
      std::memset(there, kPoison, size_t(bytes));  // from now on nobody can rely on what was there
      m.bulk.push_back(bulk);
    }
  }
}

namespace {

void copy_mapped(Bulk bulk, void* b) {
  constexpr const char* kWhat = "a tensor copy";
  const unsigned line = bulk.line;
  const TensorMap& map = *bulk.map;
  bulk.barrier = barrier_place(kWhat, b, line);
  size_t bytes = map.element_bytes;
  for (unsigned d = 0; d < (map.pixels ? 2 : map.rank); ++d) bytes *= map.box[d];
  if (!is_dynamic(bulk.copy.to, bytes)) fail("%s in line %u: the destination is not in dynamic shared memory", kWhat, line);
  if (!aligned(bulk.copy.to, 1024)) fail("%s in line %u: the destination is not aligned to the swizzle's 1024 bytes", kWhat, line);
  bulk.copy.bytes = bulk.copy.from_bytes = unsigned(bytes);
  bulk.block = int(m.own - m.blocks.data()), bulk.thread = m.current;
  published_barrier(kWhat, *m.own, bulk.barrier, line);
  if (m.options.copies == Copies::eager) {
    land_bulk(bulk);
  } else {
    std::memset(bulk.copy.to, kPoison, bytes);
    m.bulk.push_back(bulk);
  }
}

}  // namespace

void copy_box(void* to, const void* map, const int* at, unsigned rank, void* b, unsigned line) {
  Bulk bulk = {{to, nullptr, 0, 0}, 0, 0, 0, line, static_cast<const TensorMap*>(map)};
  if (bulk.map->rank != rank || bulk.map->pixels)
    fail("a tensor copy in line %u: %u coordinates for a map of %u", line, rank, bulk.map->rank);
  std::copy(at, at + rank, bulk.at);
  copy_mapped(bulk, b);
}

void copy_pixels(void* to, const void* map, const int (&at)[4], const int (&window)[2], void* b, unsigned line) {
  Bulk bulk = {{to, nullptr, 0, 0}, 0, 0, 0, line, static_cast<const TensorMap*>(map)};
  if (!bulk.map->pixels) fail("a pixel copy in line %u: the map is of boxes", line);
  if (window[0] < 0 || window[0] > 255 || window[1] < 0 || window[1] > 255)
    fail("a pixel copy in line %u: a window of more than 255", line);
  for (int d = 0; d < 2; ++d)
    if (at[d + 1] < bulk.map->lower[d] || at[d + 1] >= (long long)bulk.map->extents[d + 1] + bulk.map->upper[d])
      fail("a pixel copy in line %u: it begins outside its box", line);
  std::copy(at, at + 4, bulk.at);
  std::copy(window, window + 2, bulk.window);
  copy_mapped(bulk, b);
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
  if (threads_of_block() % (4 * kWarp)) fail("wgmma in line %u: the block is no whole number of groups of four warps", line);
  if (t.unfenced) fail("wgmma in line %u: no proxy fence since copies landed", line);
  check_descriptor(a, 64, line);
  check_descriptor(b, n, line);
  const Product p = {kind, sums, n, a, b};
  if (m.options.copies == Copies::lazy)
    multiply_staged(p);
  else
    t.products.items.push_back(p);
}

void product_commit() { m.threads[size_t(m.current)].products.commit(); }

/// A warp waits as one: who goes on knows of all its lanes.
void product_wait(int pending, unsigned line) {
  m.threads[size_t(m.current)].products.wait(pending, multiply_staged);
  warp_meet(Kind::product_wait, ~0u, line);
}

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

unsigned char* dynamic_shared() { return m.own->dynamic; }

void call_pointers(const void* kernel, void* const* args, int n_args) {
  call_one_of(kernel, args, n_args, std::make_index_sequence<kMaxPointers + 1>());
}

Result launch_threads(void (*call)(void* context), void* context, long long grid, int block, int cluster, long long shared_bytes,
                      const Options& options, unsigned char* shared, unsigned char* shared_end) {
  alignas(1024) static unsigned char memory[kMaxCluster][kDynamicCapacity + kGuard];
  static_assert(sizeof memory[0] % 1024 == 0, "every block's is aligned");
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
  if (cluster < 1 || cluster > kMaxCluster || grid % cluster) return refuse("a grid that is no whole number of clusters");
  const size_t warps = size_t(cluster) * (size_t(block + kWarp - 1) / kWarp);
  make_stacks(warps * kWarp, options.stack_bytes ? (options.stack_bytes + 8191) / 4096 * 4096 : kStack);
  if (!m.stacks) return refuse("no memory for the threads' stacks");
  m.running = true;
  m.call = call, m.context = context, m.options = options, m.result = &result;
  m.shared = shared, m.shared_end = shared_end, m.dynamic_bytes = size_t(shared_bytes);
  m.threads.resize(warps * kWarp);
  m.warps.resize(warps);
  m.blocks.resize(size_t(cluster));
  for (size_t i = 0; i < m.blocks.size(); ++i) m.blocks[i].dynamic = memory[i];
  blockDim = {unsigned(block), 1, 1}, gridDim = {unsigned(grid), 1, 1};
  threadIdx = blockIdx = {0, 0, 0};
  for (long long b = 0; b < grid && result.ok(); b += cluster) run_cluster(unsigned(b));
  m.running = false;
  return result;
}

}  // namespace gpu_shim
