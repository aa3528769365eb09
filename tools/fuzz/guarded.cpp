#include "fuzz/guarded.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/math.h"

namespace rgen::fuzz {

constexpr uint8_t kCanary = 0xa5;

GuardedBuffer::GuardedBuffer(size_t bytes, size_t alignment, Edge edge) : bytes_(bytes) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  open_bytes_ = size_t(round_up(int64_t(std::max<size_t>(bytes, 1)), int64_t(page)));
  map_bytes_ = open_bytes_ + 2 * page;
  void* p = mmap(nullptr, map_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  map_ = static_cast<uint8_t*>(p);
  if (mprotect(map_ + page, open_bytes_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  std::memset(map_ + page, kCanary, open_bytes_);
  const size_t before = edge == Edge::before ? 0 : (open_bytes_ - bytes) / alignment * alignment;
  data_ = map_ + page + before;
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& o) noexcept
    : map_(std::exchange(o.map_, nullptr)), map_bytes_(o.map_bytes_), open_bytes_(o.open_bytes_), bytes_(o.bytes_), data_(o.data_) {}

GuardedBuffer::~GuardedBuffer() {
  if (map_) munmap(map_, map_bytes_);
}

void GuardedBuffer::fill(uint8_t byte) { std::memset(data_, byte, bytes_); }

void GuardedBuffer::make_read_only() { mprotect(map_ + (map_bytes_ - open_bytes_) / 2, open_bytes_, PROT_READ); }

bool GuardedBuffer::intact() const {
  const uint8_t *first = map_ + (map_bytes_ - open_bytes_) / 2, *last = first + open_bytes_;
  const auto canary = [](uint8_t b) { return b == kCanary; };
  return std::all_of(first, static_cast<const uint8_t*>(data_), canary) &&
         std::all_of(static_cast<const uint8_t*>(data_) + bytes_, last, canary);
}

}  // namespace rgen::fuzz
