#include "rgen/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "rgen/environment.h"

namespace rgen::cli {

namespace {

/// Code points, not bytes: "µ" and "×" are one column wide.
size_t width(const std::string& s) {
  return size_t(std::count_if(s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string padded(const std::string& s, size_t to, bool right) {
  const std::string space(to - std::min(to, width(s)), ' ');
  return right ? space + s : s + space;
}

}  // namespace

Table::Table(std::vector<std::string> headers) : headers_(std::move(headers)) {
  for (std::string& h : headers_) {
    right_.push_back(!h.empty() && h[0] == '>');
    if (right_.back()) h.erase(0, 1);
  }
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(headers_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < headers_.size(); ++c) {
    widths.push_back(width(headers_[c]));
    for (const auto& row : rows_) widths[c] = std::max(widths[c], width(row[c]));
  }
  std::string all;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string s;
    for (size_t c = 0; c < cells.size(); ++c) s += (c ? "  " : "") + padded(cells[c], widths[c], right_[c]);
    s.erase(s.find_last_not_of(' ') + 1);
    all += s + "\n";
  };
  line(headers_);
  for (const auto& row : rows_) line(row);
  return all;
}

namespace {

/// Three digits, never an exponent: "0.982", "17.9", "1240".
std::string figure(double v) { return v >= 100 ? fmt::format("{:.0f}", v) : fmt::format("{:.3g}", v); }

}  // namespace

std::string time_text(double us) {
  if (us < 1) return figure(us * 1e3) + " ns";
  if (us < 1e3) return figure(us) + " µs";
  if (us < 1e6) return figure(us / 1e3) + " ms";
  return figure(us / 1e6) + " s";
}

std::string bytes_text(double bytes) {
  if (bytes < 1024) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1024 * 1024) return fmt::format("{:.1f} KiB", bytes / 1024);
  return fmt::format("{:.1f} MiB", bytes / (1024 * 1024));
}

std::string percent_text(double part, double whole) { return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : "-"; }

std::string rate_text(const WorkAmount& work, double us) {
  // Four operations a byte: below it no machine of the shipped profiles is bound by its arithmetic.
  const bool computes = work.operations >= 4 * work.bytes;
  return figure((computes ? work.operations : work.bytes) / us / 1e3) + (computes ? " GFLOP/s" : " GB/s");
}

std::string error_text(double relative) { return fmt::format("{:.1e}", relative); }

std::string count_text(int64_t n, const std::string& noun) { return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s"); }

void print_error(const Error& error) {
  const bool colour = may_colour(STDERR_FILENO);
  fmt::print(stderr, "rgen: {}error:{} {}\n", colour ? "\033[31m" : "", colour ? "\033[0m" : "", error.what());
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw Error(ErrorCode::usage, "cannot write to the standard output");
}

Progress::Progress(size_t total) : total_(total), active_(total > 1 && is_terminal(STDERR_FILENO)) {}
Progress::~Progress() { clear(); }

void Progress::step(const std::string& what) {
  ++done_;
  if (!active_) return;
  clear();
  fmt::print(stderr, "[{}/{}] {}", done_, total_, what);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace rgen::cli
