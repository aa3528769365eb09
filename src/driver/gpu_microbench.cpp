#include "driver/gpu_microbench.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>

namespace rgen::driver {

using run::CudaBuffer;
using run::CudaContext;
namespace cuda = run::cuda;

namespace {

constexpr int kBlock = 1024;
constexpr int64_t kLine = 128;
constexpr int kRepeats = 3;  // the best of: other work on the device only slows

uint64_t word(const void* p) { return reinterpret_cast<uint64_t>(p); }

/// The kernels, a stream, and the small buffers that they take.
class Bench {
 public:
  Bench(const CudaContext& context, const std::string& image)
      : context_(context),
        stream_(context),
        module_(run::CudaModule::load(context, image)),
        operands_(context, 64),
        results_(context, kBlock * sizeof(float)),
        cycles_(context, size_t(kMostBlocks) * sizeof(int64_t)) {
    const float near_one[16] = {1.0009765625f, 0.9990234375f, 3.f};
    operands_.upload(near_one, stream_);
    cycles_.fill(0, stream_);
    stream_.wait();
  }

  uint64_t operands() const { return word(operands_.data()); }
  uint64_t results() const { return word(results_.data()); }
  uint64_t cycles() const { return word(cycles_.data()); }
  const CudaContext& context() const { return context_; }
  const run::CudaStream& stream() const { return stream_; }

  void launch(const std::string& kernel, int grid, int block, std::vector<uint64_t> values) const {
    std::vector<void*> arguments;
    for (uint64_t& v : values) arguments.push_back(&v);
    context_.check(context_.driver()->api().launch(module_->function(kernel, 0), unsigned(grid), 1, 1, unsigned(block), 1, 1, 0,
                                                   stream_.handle(), arguments.data(), nullptr),
                   "cuLaunchKernel of '" + kernel + "'");
  }
  /// The cycles that the slowest of `blocks` blocks wrote.
  double cycles_written(int blocks) const {
    std::vector<int64_t> all(kMostBlocks);
    cycles_.download(all.data(), stream_);
    stream_.wait();
    return double(*std::max_element(all.begin(), all.begin() + std::min(blocks, kMostBlocks)));
  }
  double milliseconds(const std::string& kernel, int grid, int block, const std::vector<uint64_t>& values) const {
    return run::elapsed_ms(
        context_, stream_, [&] { launch(kernel, grid, block, values); }, 1);
  }

  static constexpr int kMostBlocks = 1024;

 private:
  const CudaContext& context_;
  run::CudaStream stream_;
  std::shared_ptr<const run::CudaModule> module_;
  CudaBuffer operands_, results_, cycles_;
};

/// Cycles of an iteration of one block, after enough of them that start and end do not count.
double cycles_per_iteration(const Bench& b, const std::string& kernel, int block, std::vector<uint64_t> values) {
  constexpr double enough = 200e3;
  values.push_back(0);
  for (uint64_t n = 16;; n *= 4) {
    values.back() = n;
    double best = INFINITY;
    for (int r = 0; r < kRepeats; ++r) {
      b.launch(kernel, 1, block, values);
      best = std::min(best, b.cycles_written(1));
    }
    if (best >= enough || n >= 1 << 20) return std::max(best, 1.0) / double(n);
  }
}

void measure_operations(const Bench& b, bool tensor_cores, GpuFigures& figures) {
  constexpr int warps = kBlock / 32;
  const std::vector<uint64_t> values = {b.operands(), b.results(), b.cycles()};
  for (const GpuOperation& o : microbench_operations(tensor_cores)) {
    const double cycles = cycles_per_iteration(b, "rate_" + o.kernel, kBlock, values) / (warps * o.per_iteration);
    // A multiplication is measured before it is subtracted; what is left is no less than half, whatever the noise.
    figures.cycles[o.figure] = std::max(cycles - o.extra_mul * figures.cycles["mul"], 0.5 * cycles);
    if (o.has_chain) figures.latency[o.figure] = cycles_per_iteration(b, "chain_" + o.kernel, 32, values) * 8 / o.per_iteration;
  }
}

/// With all SMs at work for 20 ms: what it sustains.
double measure_clock(const Bench& b, int sms) {
  for (uint64_t n = 1024;; n *= 2) {
    const double ms = b.milliseconds("rate_fma", sms, kBlock, {b.operands(), b.results(), b.cycles(), n});
    if (ms >= 20 || n >= uint64_t(1) << 30) return b.cycles_written(sms) / (ms * 1e6);
  }
}

double measure_launch(const Bench& b) {
  constexpr int calls = 200;
  double best = INFINITY;
  for (int r = 0; r < kRepeats + 2; ++r)
    best = std::min(best, run::elapsed_ms(
                              b.context(), b.stream(), [&] { b.launch("nothing", 1, 32, {b.operands()}); }, calls));
  return best * 1e3 / calls;
}

/// Cycles from block to block of a grid that the device hands out, of a warp that ends at once.
double measure_block_launch(const Bench& b, double ghz) {
  constexpr double enough_ms = 0.1;
  for (int n = 4096;; n *= 4) {
    double ms = INFINITY;
    for (int r = 0; r < kRepeats; ++r) ms = std::min(ms, b.milliseconds("nothing", n, 32, {b.operands()}));
    if (ms >= enough_ms || n >= 1 << 20) return ms * 1e6 * ghz / n;
  }
}

/// Memory of a power of two of bytes, walked through round and round: each stream begins where the last one ended.
class Area {
 public:
  Area(const Bench& b, int64_t bytes) : b_(b), memory_(b.context(), size_t(bytes)) {
    memory_.fill(0, b.stream());
    b.stream().wait();
  }

  void stream(const std::string& kernel, int sms, int64_t iterations) { b_.launch(kernel, sms, kBlock, next(sms, iterations)); }
  /// GB/s of all bytes read and written.
  double gbs(const std::string& kernel, int sms) {
    constexpr double enough_ms = 1;
    for (int64_t n = 8;; n *= 2) {
      double ms = INFINITY;
      for (int r = 0; r < kRepeats; ++r) ms = std::min(ms, b_.milliseconds(kernel, sms, kBlock, next(sms, n)));
      if (ms >= enough_ms || n >= 1 << 20) return double(moved(sms, n)) / (std::max(ms, 1e-6) * 1e6);
    }
  }
  /// Cycles of a hop along `nodes` lines in random order within the first `window` bytes.
  double chase(const std::string& kernel, int64_t nodes, int64_t window, const std::function<void()>& before) {
    make_ring(nodes, std::min(window, int64_t(memory_.size())));
    double best = INFINITY;
    for (int r = 0; r < kRepeats; ++r) {
      before();
      b_.launch(kernel, 1, 1, {first_, b_.cycles(), uint64_t(nodes - 1)});
      best = std::min(best, b_.cycles_written(1));
    }
    return std::max(best, 1.0) / double(nodes - 1);
  }
  int64_t bytes() const { return int64_t(memory_.size()); }
  static int64_t moved(int sms, int64_t iterations) { return int64_t(sms) * kBlock * 8 * 16 * iterations; }

 private:
  const Bench& b_;
  CudaBuffer memory_;
  uint64_t at_ = 0, first_ = 0;

  std::vector<uint64_t> next(int sms, int64_t iterations) {
    const uint64_t start = at_;
    at_ += uint64_t(moved(sms, iterations)) / 16;
    return {word(memory_.data()), b_.results(), memory_.size() / 16 - 1, start, uint64_t(iterations)};
  }
  void make_ring(int64_t nodes, int64_t window) {
    std::vector<uint64_t> lines(size_t(window / kLine));
    std::iota(lines.begin(), lines.end(), uint64_t(0));
    std::shuffle(lines.begin(), lines.end(), std::mt19937_64(1));
    lines.resize(std::min(lines.size(), size_t(nodes)));
    for (uint64_t& l : lines) l = word(memory_.data()) + l * kLine;
    const cuda::Api& f = b_.context().driver()->api();
    for (size_t i = 0; i < lines.size(); ++i)
      b_.context().check(f.copy_to_device(lines[i], &lines[(i + 1) % lines.size()], sizeof(uint64_t), b_.stream().handle()),
                         "cuMemcpyHtoDAsync_v2");
    b_.stream().wait();
    first_ = lines.front();
  }
};

std::vector<int> sharers(int sms) {
  std::vector<int> all = {1, sms / 4, sms / 2, sms};
  all.erase(std::remove(all.begin(), all.end(), 0), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

void measure_memory(const Bench& b, int sms, int64_t l2_bytes, int64_t memory_bytes, GpuFigures& figures) {
  constexpr int64_t page_window = 32 << 20;  // few enough pages that their translations are at hand
  Area near(b, int64_t(std::bit_floor(uint64_t(std::max<int64_t>(l2_bytes / 2, 1 << 16)))));
  Area far(b, int64_t(std::min(std::bit_ceil(uint64_t(8 * l2_bytes)), std::bit_floor(uint64_t(memory_bytes / 4)))));
  const auto flush = [&] { far.stream("read_global", sms, std::max<int64_t>(1, 3 * l2_bytes / Area::moved(sms, 1))); };
  const auto nothing = [] {};
  figures.l1_latency = near.chase("chase_l1", 64, near.bytes(), nothing);
  figures.l2_latency = near.chase("chase_l2", 2048, 2 << 20, nothing);
  figures.dram_latency = far.chase("chase_l2", 4096, page_window, flush);
  figures.shared_latency = cycles_per_iteration(b, "chase_shared", 32, {b.cycles()});
  const double shared_bytes = 8.0 * kBlock * sizeof(float);
  figures.shared_read = shared_bytes / cycles_per_iteration(b, "read_shared", kBlock, {b.results(), b.cycles()});
  figures.shared_write = shared_bytes / cycles_per_iteration(b, "write_shared", kBlock, {b.results(), b.cycles()});
  for (const int n : sharers(sms))
    figures.rows.push_back({n, near.gbs("read_global", n) / n, near.gbs("write_global", n) / n, far.gbs("read_global", n) / n,
                            far.gbs("write_global", n) / n});
  figures.copy_gbs = far.gbs("copy_global", sms);
}

}  // namespace

GpuFigures measure_gpu(const CudaContext& context, const std::string& image, bool tensor_cores) {
  const run::CudaDriver& driver = *context.driver();
  const int ordinal = context.device().ordinal, sms = driver.attribute(ordinal, cuda::multiprocessor_count);
  const run::CudaScope scope(context);
  const Bench b(context, image);
  GpuFigures figures;
  figures.ghz = measure_clock(b, sms);  // first: it also brings the clock up
  measure_operations(b, tensor_cores, figures);
  figures.launch_us = measure_launch(b);
  figures.block_launch = measure_block_launch(b, figures.ghz);
  measure_memory(b, sms, driver.attribute(ordinal, cuda::l2_cache_size), context.device().memory_bytes, figures);
  return figures;
}

}  // namespace rgen::driver
