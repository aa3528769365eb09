#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "hwmodel/host.h"

#ifdef RGEN_HAVE_HWLOC
#include <hwloc.h>
#endif

namespace rgen::hw {

namespace {

std::string read_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// "0-3,8" → 0 1 2 3 8
std::vector<int> parse_list(const std::string& text) {
  std::vector<int> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    int first = 0, last = 0;
    char dash = 0;
    std::istringstream range(part);
    if (!(range >> first)) continue;
    if (!(range >> dash >> last)) last = first;
    for (int cpu = first; cpu <= last; ++cpu) out.push_back(cpu);
  }
  return out;
}

const std::string cpu_root = "/sys/devices/system/cpu/";

std::vector<int> online_cpus() {
  std::vector<int> cpus = parse_list(read_line(cpu_root + "online"));
  if (cpus.empty())
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) cpus.push_back(int(i));
  return cpus;
}

int64_t parse_size(const std::string& text) {
  std::istringstream in(text);
  int64_t n = 0;
  char suffix = 0;
  in >> n >> suffix;
  return suffix == 'K' ? n << 10 : suffix == 'M' ? n << 20 : n;
}

Topology from_sysfs(const std::vector<int>& usable) {
  Topology out;
  std::set<std::string> cores;
  for (int cpu : usable) {
    const std::string siblings = read_line(cpu_root + "cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
    if (siblings.empty() || cores.insert(siblings).second) out.cpus.push_back(cpu);
  }
  if (out.cpus.empty()) return out;
  for (int index = 0; index < 8; ++index) {
    const std::string at = cpu_root + "cpu" + std::to_string(out.cpus[0]) + "/cache/index" + std::to_string(index) + "/";
    const std::string type = read_line(at + "type");
    if (type != "Data" && type != "Unified") continue;
    CacheLevel cache;
    cache.level = int(parse_size(read_line(at + "level")));
    cache.bytes = parse_size(read_line(at + "size"));
    cache.ways = int(parse_size(read_line(at + "ways_of_associativity")));
    cache.line = int(parse_size(read_line(at + "coherency_line_size")));
    const std::vector<int> sharers = parse_list(read_line(at + "shared_cpu_list"));
    cache.shared_by =
        int(std::count_if(out.cpus.begin(), out.cpus.end(), [&](int c) { return std::count(sharers.begin(), sharers.end(), c) > 0; }));
    if (cache.bytes > 0) out.caches.push_back(cache);
  }
  std::sort(out.caches.begin(), out.caches.end(), [](const CacheLevel& a, const CacheLevel& b) { return a.level < b.level; });
  return out;
}

#ifdef RGEN_HAVE_HWLOC
Topology from_hwloc(const std::vector<int>& usable) {
  Topology out;
  hwloc_topology_t tree;
  if (hwloc_topology_init(&tree) != 0) return out;
  if (hwloc_topology_load(tree) == 0) {
    for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(tree, HWLOC_OBJ_CORE, core)) != nullptr;)
      for (int cpu : usable)
        if (hwloc_bitmap_isset(core->cpuset, unsigned(cpu))) {
          out.cpus.push_back(cpu);
          break;
        }
    const hwloc_obj_t first = out.cpus.empty() ? nullptr : hwloc_get_pu_obj_by_os_index(tree, unsigned(out.cpus[0]));
    for (hwloc_obj_t at = first; at != nullptr; at = at->parent) {
      if (!hwloc_obj_type_is_dcache(at->type) || at->attr->cache.size == 0) continue;
      CacheLevel cache;
      cache.level = int(at->attr->cache.depth);
      cache.bytes = int64_t(at->attr->cache.size);
      cache.ways = std::max(0, at->attr->cache.associativity);  // -1: fully associative, 0: unknown
      cache.line = int(at->attr->cache.linesize);
      cache.shared_by =
          int(std::count_if(out.cpus.begin(), out.cpus.end(), [&](int c) { return hwloc_bitmap_isset(at->cpuset, unsigned(c)); }));
      out.caches.push_back(cache);
    }
  }
  hwloc_topology_destroy(tree);
  return out;
}
#endif

}  // namespace

std::vector<int> usable_cpus() {
  std::vector<int> usable;
  std::thread([&] {  // its affinity is its own: the caller's stays as it is
    for (int cpu : online_cpus()) {
      if (cpu >= CPU_SETSIZE) break;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      if (pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0) usable.push_back(cpu);
    }
  })
      .join();
  return usable;
}

Topology detect_topology(const std::vector<int>& usable) {
#ifdef RGEN_HAVE_HWLOC
  if (Topology found = from_hwloc(usable); !found.cpus.empty() && !found.caches.empty()) return found;
#endif
  return from_sysfs(usable);
}

}  // namespace rgen::hw
