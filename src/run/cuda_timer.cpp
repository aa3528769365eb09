#include <algorithm>
#include <chrono>

#include "run/cuda_device.h"

namespace rgen::run {

namespace {

class Event {
 public:
  explicit Event(const CudaContext& context) : context_(context) {
    context.check(context.driver()->api().event_create(&handle_, 0), "cuEventCreate");
  }
  ~Event() { context_.driver()->api().event_destroy(handle_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cuda::Event handle() const { return handle_; }
  void record(const CudaStream& stream) const {
    context_.check(context_.driver()->api().event_record(handle_, stream.handle()), "cuEventRecord");
  }

 private:
  const CudaContext& context_;
  cuda::Event handle_ = nullptr;
};

}  // namespace

double elapsed_ms(const CudaContext& context, const CudaStream& stream, const std::function<void()>& enqueue, int64_t calls) {
  const cuda::Api& f = context.driver()->api();
  const Event begin(context), end(context);
  begin.record(stream);
  for (int64_t i = 0; i < calls; ++i) enqueue();
  end.record(stream);
  // What failed on the device is told here.
  context.check(f.event_wait(end.handle()), "cuEventSynchronize");
  float ms = 0;
  context.check(f.event_elapsed(&ms, begin.handle(), end.handle()), "cuEventElapsedTime");
  return ms;
}

Timing time_on_device(const CudaContext& context, const CudaStream& stream, const std::function<void()>& enqueue, double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr double shortest_ms = 1;  // the events' resolution is half a microsecond
  constexpr int64_t most = 1 << 16;  // calls in a batch
  constexpr size_t few = 5;          // a median needs some batches even of a call that outlasts `seconds`
  const auto seconds_since = [](Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); };

  // Warm-up: the clock frequency and the caches; it also finds the length of a batch.
  const auto start = Clock::now();
  int64_t per_batch = 1;
  double ms = elapsed_ms(context, stream, enqueue, 1);
  while (seconds_since(start) < seconds / 10 || (ms < shortest_ms && per_batch < most)) {
    if (ms < shortest_ms && per_batch < most) per_batch *= 2;
    ms = elapsed_ms(context, stream, enqueue, per_batch);
  }

  std::vector<double> us;
  const auto measured = Clock::now();
  while (seconds_since(measured) < seconds || us.size() < few)
    us.push_back(1e3 * elapsed_ms(context, stream, enqueue, per_batch) / double(per_batch));
  const auto middle = us.begin() + long(us.size() / 2);
  std::nth_element(us.begin(), middle, us.end());
  return {*middle, *std::min_element(us.begin(), us.end()), per_batch * int64_t(us.size())};
}

}  // namespace rgen::run
