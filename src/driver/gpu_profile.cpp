#include "driver/gpu_profile.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "hwmodel/figures.h"
#include "hwmodel/host.h"
#include "hwmodel/profile.h"

namespace rgen::driver {

using nlohmann::json;
namespace cuda = run::cuda;

namespace {

json told(double value, const char* unit) {
  return {{"value", value}, {"unit", unit}, {"source", "datasheet"}, {"note", "driver attribute"}};
}
json told(int64_t value, const char* unit) {
  return {{"value", value}, {"unit", unit}, {"source", "datasheet"}, {"note", "driver attribute"}};
}

json measured(double value, const char* unit) {
  return {{"value", hw::rounded_to(value, 4)}, {"unit", unit}, {"source", "measured"}, {"date", hw::today()}};
}

int arch_number(const json& profile) { return std::atoi(profile["arch"].get_ref<const std::string&>().c_str() + 3); }

double dram_gbs(const json& profile) {
  const json& read = profile["levels"].back()["read"]["per_sharer"].back();
  return read["value"].get<double>() * read["sharers"].get<double>();
}

double distance(double a, double b) { return a > 0 && b > 0 ? std::abs(std::log(a / b)) : 1; }

/// The shipped profile of the latest architecture whose code the device runs, and of those the one nearest in SMs and bandwidth.
json nearest_gpu(const GpuAttributes& a) {
  json best;
  double best_score = INFINITY;
  std::string archs;
  for (const std::string& name : hw::shipped_profiles()) {
    json p = json::parse(*hw::shipped_profile_text(name));
    if (p["kind"] != "gpu") continue;
    const std::string arch = p["arch"];
    if (archs.find(arch) == std::string::npos) archs += (archs.empty() ? "" : ", ") + arch;
    const int number = arch_number(p);
    if (number / 10 != a.major || number % 10 > a.minor) continue;
    const double peak = 2 * a.memory_mhz * a.bus_bits / 8e3;
    const double score =
        100.0 * (a.minor - number % 10) + distance(p["cores"]["value"].get<double>(), a.sms) + distance(dram_gbs(p), 0.92 * peak);
    if (score < best_score) best = std::move(p), best_score = score;
  }
  if (best.is_null())
    throw Error(ErrorCode::unsupported,
                "no shipped profile resembles a GPU of compute capability " + std::to_string(a.major) + "." + std::to_string(a.minor) +
                    ": there are " + archs + "; copy the nearest one and edit it",
                a.name);
  return best;
}

/// "NVIDIA H100 80GB HBM3" → "nvidia_h100_80gb_hbm3"
std::string identifier_of(const std::string& title) {
  std::string name;
  for (const char c : title) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u))
      name += char(std::tolower(u));
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name.empty() ? "gpu" : name;
}

/// The rows for another number of SMs: what all of them get together stays.
void keep_rows(json& bandwidth, int sms) {
  json rows = json::array();
  for (const json& row : bandwidth["per_sharer"])
    if (row["sharers"] < sms) rows.push_back(row);
  json all = bandwidth["per_sharer"].back();
  if (all["sharers"] != 1) all["value"] = hw::rounded_to(all["value"].get<double>() * all["sharers"].get<double>() / sms, 4);
  if (rows.empty() || sms > 1) {
    all["sharers"] = sms;
    rows.push_back(all);
  }
  bandwidth["per_sharer"] = rows;
}

json kib(int64_t bytes) { return bytes % 1024 == 0 ? told(bytes / 1024, "KiB") : told(bytes, "B"); }

void apply_attributes(json& doc, const GpuAttributes& a) {
  if (a.clock_mhz > 0) doc["clock"] = told(a.clock_mhz, "MHz");
  doc["cores"] = told(int64_t(a.sms), "count");
  json &near = doc["levels"][0], &l2 = doc["levels"][1], &dram = doc["levels"][2];
  near["capacity"] = kib(a.smem_per_block);
  l2["capacity"] = kib(a.l2_bytes);
  for (json* level : {&l2, &dram}) (*level)["shared_by"] = told(int64_t(a.sms), "count");
  for (json& level : doc["levels"])
    for (const char* direction : {"read", "write"}) keep_rows(level[direction], a.sms);
  if (const double peak = 2 * a.memory_mhz * a.bus_bits / 8e3; peak > 0) {
    json& rows = dram["read"]["per_sharer"];
    const double scale = 0.92 * peak / (rows.back()["value"].get<double>() * a.sms);
    for (const char* direction : {"read", "write"}) {
      json& last = dram[direction]["per_sharer"].back();
      last["value"] = hw::rounded_to(last["value"].get<double>() * scale, 4);
      dram[direction]["note"] = "0.92 of the " + std::to_string(std::lround(peak)) + " GB/s of the driver's memory clock and bus";
    }
  }
  json& g = doc["gpu"];
  g["max_threads_per_sm"] = told(int64_t(a.threads_per_sm), "count");
  g["max_blocks_per_sm"] = told(int64_t(a.blocks_per_sm), "count");
  g["max_threads_per_block"] = told(int64_t(a.threads_per_block), "count");
  g["registers_per_sm"] = told(int64_t(a.registers_per_sm), "count");
  g["smem_per_sm"] = kib(a.smem_per_sm);
  g["smem_per_block"] = kib(a.smem_per_block);
}

// ---- What was measured

std::string figure_of(const json& atom) {
  const std::string name = atom["name"];
  if (name != "mma.sync") return name;
  return name + " " + (atom.value("math", "ieee") == "tf32" ? "tf32" : atom["a"].get<std::string>());
}

/// The shape that the kernels of the figure multiply; nothing for others.
json shape_of(const std::string& figure) {
  return figure == "fma"             ? json{1, 32, 1}
         : figure == "dp4a"          ? json{1, 32, 4}
         : figure == "mma.sync s8"   ? json{16, 8, 32}
         : figure == "mma.sync tf32" ? json{16, 8, 8}
                                     : json{16, 8, 16};
}

void apply_rates(json& doc, const GpuFigures& f) {
  doc["clock"] = measured(f.ghz, "GHz");
  for (json& atom : doc["atoms"]) {
    const std::string figure = figure_of(atom);
    const auto cycles = f.cycles.find(figure);
    if (cycles == f.cycles.end() || atom["shape"] != shape_of(figure)) continue;
    atom["rate"] = measured(1 / cycles->second, "per cycle");
    if (const auto latency = f.latency.find(figure); latency != f.latency.end()) atom["latency"] = measured(latency->second, "cycles");
  }
  for (auto& [name, entry] : doc["cycles"].items())
    if (const auto c = f.cycles.find(name == "select" ? "compare" : name); c != f.cycles.end()) entry = measured(c->second, "cycles");
  doc["call"] = measured(f.launch_us, "us");
  doc["gpu"]["block_launch"] = measured(f.block_launch, "cycles");
}

json bandwidth(const std::vector<GpuFigures::Row>& rows, double GpuFigures::Row::*column) {
  json table = json::array();
  for (const GpuFigures::Row& row : rows) table.push_back({{"sharers", row.sharers}, {"value", hw::rounded_to(row.*column, 4)}});
  return {{"per_sharer", table}, {"unit", "GB/s"}, {"source", "measured"}, {"date", hw::today()}};
}

json of_one(double value) {
  return {{"per_sharer", {{{"sharers", 1}, {"value", hw::rounded_to(value, 4)}}}},
          {"unit", "B/cycle"},
          {"source", "measured"},
          {"date", hw::today()}};
}

void apply_memory(json& doc, const GpuFigures& f) {
  json &near = doc["levels"][0], &l2 = doc["levels"][1], &dram = doc["levels"][2];
  // Each level is slower than the one inside it, also where noise says otherwise.
  const double l2_latency = std::max(f.l2_latency, 1.05 * f.l1_latency), dram_latency = std::max(f.dram_latency, 1.05 * l2_latency);
  near["latency"] = measured(f.l1_latency, "cycles");
  near["latency"]["note"] =
      "of a load that hits the first-level cache; from shared memory " + std::to_string(std::lround(f.shared_latency));
  l2["latency"] = measured(l2_latency, "cycles");
  dram["latency"] = measured(dram_latency, "cycles");
  near["read"] = of_one(f.shared_read);
  near["write"] = of_one(f.shared_write);
  l2["read"] = bandwidth(f.rows, &GpuFigures::Row::l2_read);
  l2["write"] = bandwidth(f.rows, &GpuFigures::Row::l2_write);
  dram["read"] = bandwidth(f.rows, &GpuFigures::Row::dram_read);
  dram["read"]["note"] = "copying moves " + std::to_string(std::lround(f.copy_gbs)) + " GB/s in all, reading and writing";
  dram["write"] = bandwidth(f.rows, &GpuFigures::Row::dram_write);
}

}  // namespace

GpuAttributes gpu_attributes(const run::CudaDriver& driver, int ordinal) {
  const run::CudaDeviceInfo device = driver.device(ordinal);
  const auto get = [&](cuda::Attribute a) { return driver.attribute(ordinal, a); };
  GpuAttributes a;
  a.name = device.name, a.major = device.major, a.minor = device.minor;
  a.sms = get(cuda::multiprocessor_count);
  a.clock_mhz = get(cuda::clock_rate) / 1e3, a.memory_mhz = get(cuda::memory_clock_rate) / 1e3;
  a.bus_bits = get(cuda::global_memory_bus_width);
  a.l2_bytes = get(cuda::l2_cache_size);
  a.smem_per_sm = get(cuda::max_shared_memory_per_multiprocessor), a.smem_per_block = get(cuda::max_shared_memory_per_block_optin);
  a.threads_per_sm = get(cuda::max_threads_per_multiprocessor), a.blocks_per_sm = get(cuda::max_blocks_per_multiprocessor);
  a.threads_per_block = get(cuda::max_threads_per_block), a.registers_per_sm = get(cuda::max_registers_per_multiprocessor);
  return a;
}

std::string gpu_profile_text(const GpuAttributes& attributes, const GpuFigures* figures) {
  json doc = nearest_gpu(attributes);
  hw::restamp(doc, doc["name"]);
  doc["name"] = identifier_of(attributes.name);
  doc["title"] = attributes.name;
  doc["vendor"] = "NVIDIA";
  apply_attributes(doc, attributes);
  if (figures) {
    apply_rates(doc, *figures);
    apply_memory(doc, *figures);
  }
  std::string text = hw::layout(doc);
  hw::parse_profile(text, attributes.name);  // complete and consistent, whatever was measured
  return text;
}

std::string device_profile_json(const GpuOptions& options, const std::string& nvrtc, bool measure) {
  const auto driver = run::CudaDriver::open(options.library);
  const GpuAttributes attributes = gpu_attributes(*driver, options.ordinal);
  if (!measure) return gpu_profile_text(attributes, nullptr);
  const run::CudaContext context = run::CudaContext::acquire(driver, options.ordinal);
  const bool tensor_cores = attributes.major >= 8;
  const std::string arch = context.device().arch();
  const std::string image =
      run::Nvrtc::open({nvrtc})->compile(microbench_source(tensor_cores), "measurements.cu", arch, run::DeviceImage::cubin).image;
  const GpuFigures figures = measure_gpu(context, image, tensor_cores);
  return gpu_profile_text(attributes, &figures);
}

}  // namespace rgen::driver
