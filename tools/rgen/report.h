// Text that a person reads: aligned tables, figures with units, errors; and progress on a terminal.
#pragma once
#include <string>
#include <vector>

#include "rgen/rgen.hpp"

namespace rgen::cli {

/// Columns as wide as their longest cell. A column is right-aligned when its header begins with '>'.
class Table {
 public:
  explicit Table(std::vector<std::string> headers);
  void add(std::vector<std::string> cells);
  std::string text() const;
  bool empty() const { return rows_.empty(); }

 private:
  std::vector<std::string> headers_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

std::string time_text(double us);                            ///< "17.9 µs", "1.24 ms"
std::string bytes_text(double bytes);                        ///< "64.0 KiB"
std::string percent_text(double part, double whole);         ///< "83 %"
std::string rate_text(const WorkAmount& work, double us);    ///< "183 GFLOP/s", or "12 GB/s" for work that mostly moves data
std::string error_text(double relative);                     ///< "1.2e-07"
std::string count_text(int64_t n, const std::string& noun);  ///< "1 thread", "2 threads"

/// "rgen: error: …" on stderr.
void print_error(const Error& error);
/// Data on stdout.
void print(const std::string& text);
/// Throws Error{usage} when stdout could not be written (a full disk).
void flush_output();

/// "[3/56] name" on a terminal's last line, gone when the next line is written or on destruction.
class Progress {
 public:
  explicit Progress(size_t total);
  ~Progress();
  void step(const std::string& what);
  void clear();

 private:
  size_t total_, done_ = 0;
  bool shown_ = false, active_;
};

}  // namespace rgen::cli
