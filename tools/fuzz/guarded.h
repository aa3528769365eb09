// Memory whose neighbours cannot be touched: an access beyond it faults, one between it and the page's end changes a canary.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace rgen::fuzz {

class GuardedBuffer {
 public:
  /// Where the inaccessible page lies close: after the last byte, or before the first.
  enum class Edge : uint8_t { after, before };
  GuardedBuffer(size_t bytes, size_t alignment, Edge edge);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&& o) noexcept;
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  void* data() const { return data_; }
  size_t size() const { return bytes_; }
  void fill(uint8_t byte);
  void make_read_only();
  bool intact() const;  ///< the canaries around the data are as they were

 private:
  uint8_t* map_ = nullptr;
  size_t map_bytes_ = 0, open_bytes_ = 0, bytes_ = 0;
  uint8_t* data_ = nullptr;
};

}  // namespace rgen::fuzz
