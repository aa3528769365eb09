// The public Program and Profile.
#include "base/error.h"
#include "driver/api.h"
#include "driver/gpu_profile.h"
#include "driver/work.h"
#include "ir/ir.h"

namespace rgen {

std::string version() { return RGEN_VERSION; }

namespace {

Program wrap(ir::TensorProgram program) {
  return Program(std::make_shared<const Program::Impl>(Program::Impl{std::make_shared<const ir::TensorProgram>(std::move(program))}));
}
Profile wrap(hw::Profile profile) {
  return Profile(std::make_shared<const Profile::Impl>(Profile::Impl{std::make_shared<const hw::Profile>(std::move(profile))}));
}

int64_t number(const ir::Size& s) { return s.is_const() ? s.value() : -1; }

std::vector<TensorInfo> describe(const ir::TensorProgram& p, const std::vector<int>& tensors) {
  std::vector<TensorInfo> infos;
  for (int t : tensors) {
    TensorInfo info{p[t].name, std::string(to_string(p[t].dtype)), {}, {}, p[t].constant};
    for (const ir::Size& s : p[t].shape) info.shape.push_back(number(s));
    for (const ir::Size& s : p[t].strides) info.strides.push_back(number(s));
    infos.push_back(std::move(info));
  }
  return infos;
}

std::string quoted(const std::vector<std::string>& names) {
  std::string s;
  for (const std::string& n : names) s += (s.empty() ? "'" : ", '") + n + "'";
  return s;
}

}  // namespace

std::vector<SpecEntry> parse_specs(std::string_view json, std::string_view origin) {
  std::vector<SpecEntry> entries;
  for (ir::SpecEntry& e : ir::parse_specs(json, origin))
    entries.push_back({std::move(e.name), [build = std::move(e.build)] { return wrap(build()); }});
  return entries;
}

Program Program::parse(std::string_view json, std::string_view origin, std::string_view name) {
  std::vector<std::string> names;
  const std::vector<SpecEntry> entries = parse_specs(json, origin);
  for (const SpecEntry& e : entries) {
    if (e.name == name || (name.empty() && entries.size() == 1)) return e.build();
    names.push_back(e.name);
  }
  if (name.empty())
    throw Error(ErrorCode::usage, std::to_string(entries.size()) + " programs: name one of " + quoted(names), std::string(origin));
  throw Error(ErrorCode::invalid_spec, "no program '" + std::string(name) + "'" + did_you_mean(name, names), std::string(origin));
}

Program Program::expression(std::string_view statements, const std::map<std::string, int64_t>& extents) {
  return wrap(ir::parse_short(statements, extents));
}

const std::string& Program::name() const { return impl_->program->name; }
std::string Program::json() const { return ir::print_json(*impl_->program); }
std::vector<TensorInfo> Program::inputs() const { return describe(*impl_->program, impl_->program->inputs); }
std::vector<TensorInfo> Program::outputs() const { return describe(*impl_->program, impl_->program->outputs); }
std::optional<WorkAmount> Program::work() const {
  if (!impl_->program->is_static()) return std::nullopt;
  const driver::WorkAmount w = driver::amount_of_work(*impl_->program);
  return WorkAmount{w.operations, w.bytes};
}

Profile Profile::load(const std::string& name_or_file, const HostOptions& host) {
  return wrap(hw::load_profile(name_or_file, {host.measure, host.cache_dir}));
}
Profile Profile::parse(std::string_view json, std::string_view origin) { return wrap(hw::parse_profile(json, origin)); }
const std::string& Profile::name() const { return impl_->profile->name; }
const std::string& Profile::title() const { return impl_->profile->title; }
const std::string& Profile::hash() const { return impl_->profile->hash; }
const std::string& Profile::json() const { return impl_->profile->json; }
const std::string& Profile::arch() const { return impl_->profile->arch; }
int Profile::cores() const { return impl_->profile->cores; }
bool Profile::is_gpu() const { return impl_->profile->kind == hw::Profile::Kind::gpu; }
std::vector<std::string> Profile::isa() const { return impl_->profile->isa; }
std::vector<std::string> Profile::missing_isa() const { return hw::missing_isa(*impl_->profile); }
void Profile::require_device(const DeviceOptions& device) const {
  driver::require_device(*impl_->profile, {device.driver, device.ordinal});
}

std::vector<DeviceInfo> devices(const std::string& driver) {
  std::vector<DeviceInfo> all;
  for (const run::CudaDeviceInfo& d : run::CudaDriver::open(driver)->devices())
    all.push_back({d.ordinal, d.name, d.arch(), d.memory_bytes});
  return all;
}

std::vector<std::string> shipped_profiles() { return hw::shipped_profiles(); }
std::string host_profile_json(const HostOptions& options) { return hw::host_profile_json({options.measure, options.cache_dir}); }
std::string device_profile_json(const DeviceOptions& device, bool measure, const std::string& nvrtc) {
  return driver::device_profile_json({device.driver, device.ordinal}, nvrtc, measure);
}
std::vector<std::string> diff_profiles(const Profile& a, const Profile& b) {
  return hw::diff_profiles(*a.impl()->profile, *b.impl()->profile);
}

std::vector<Preset> presets() {
  std::vector<Preset> all;
  for (ir::PresetInfo& p : ir::list_presets()) {
    Preset preset{std::move(p.name), std::move(p.summary), std::move(p.expression), {}};
    for (ir::PresetParameter& q : p.parameters) preset.parameters.push_back({q.name, q.type, q.meaning, q.required});
    all.push_back(std::move(preset));
  }
  return all;
}

}  // namespace rgen
