// A profile as a table for people.
#include <fmt/format.h>

#include "driver/api.h"

namespace rgen {

namespace {

std::string capacity(int64_t bytes) {
  if (bytes == 0) return "-";
  if (bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

/// "280" or "280 (1), 210 (8)": GB/s by the number of sharers.
std::string bandwidths(const std::vector<hw::SharedBandwidth>& all) {
  std::string s;
  for (const hw::SharedBandwidth& b : all) s += fmt::format("{}{:.4g} ({})", s.empty() ? "" : ", ", b.gbs, b.sharers);
  return s;
}

std::string joined(const std::vector<std::string>& words) {
  std::string s;
  for (const std::string& w : words) s += (s.empty() ? "" : " ") + w;
  return s;
}

}  // namespace

std::string Profile::summary() const {
  const hw::Profile& p = *impl_->profile;
  const bool gpu = is_gpu();
  std::string s =
      fmt::format("{}  {}\n{} {}, {} {} at {:.3g} GHz", p.name, p.title, p.vendor, p.arch, p.cores, gpu ? "SMs" : "cores", p.ghz);
  if (!gpu)
    s += fmt::format(", {} registers of {} bits, {} loads + {} stores a cycle", p.vector_registers, p.vector_bits, p.load_ports,
                     p.store_ports);
  s += fmt::format("\nisa      {}\nhash     {}\n\n", joined(p.isa), p.hash);
  s += fmt::format("{:<6}  {:>9}  {:>4}  {:>4}  {:>6}  {:>9}  {}\n", "level", "capacity", "ways", "line", "shared", "latency",
                   "read GB/s (sharers)");
  for (const hw::MemoryLevel& l : p.levels)
    s += fmt::format("{:<6}  {:>9}  {:>4}  {:>4}  {:>6}  {:>6.1f} ns  {}\n", l.name, capacity(l.capacity_bytes),
                     l.ways ? fmt::format("{}", l.ways) : "-", l.line_bytes, l.shared_by, l.latency_ns, bandwidths(l.read));
  s += fmt::format("\n{:<12}  {:<16}  {:>10}  {:>8}  {:>10}  {}\n", "atom", "types", "shape", "per ns", "latency",
                   gpu ? "Gop/s an SM" : "Gop/s a core");
  for (const hw::Atom& a : p.atoms)
    s += fmt::format("{:<12}  {:<16}  {:>10}  {:>8.3g}  {:>7.2f} ns  {:.4g}\n", a.name,
                     fmt::format("{}·{} → {}", to_string(a.a), to_string(a.b), to_string(a.acc)), fmt::format("{}×{}×{}", a.m, a.n, a.k),
                     a.per_ns, a.latency_ns, 2.0 * a.m * a.n * a.k * a.per_ns);
  s += fmt::format("\nfork and join {:.3g} us, kernel call {:.3g} us\n", p.fork_join_us, p.call_us);
  return s;
}

}  // namespace rgen
