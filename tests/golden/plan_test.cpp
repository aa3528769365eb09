// The plans of well-known workloads on four machines, as reviewed. Figures are kept to three digits, so that a plan stands out and
// noise does not.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "rtile/construct.h"
#include "support/golden.h"
#include "support/programs.h"

using namespace rgen;
using json = nlohmann::ordered_json;

namespace {

constexpr const char* kWorkloads[] = {
    "mm_relu_128",
    "mm_1024",
    "mm_1x4096x4096",
    "mm_127x509x1021",
    "bert_ffn1_128x3072x768_gelu",
    "bmm_12x128x128x64",
    "mm_bf16_512x512x512",
    "mm_s8_512x512x512",
    "conv_7x7s2_3_64_224_nhwc",
    "conv_3x3_64_64_56_nhwc",
    "conv_3x3_64_64_56_nchw",
    "conv_3x3_512_512_7_nchw",
    "conv_bf16_3x3_64_64_56_nhwc",
    "dw_3x3_32_112_nhwc",
    "dw_3x3_32_112_nchw",
    "maxpool_3x3s2_64_112_nchw",
    "transpose_4096",
    "colsum_4096",
    "layernorm_128x768",
    "mlp_784_128_10_b128",
    "attention_h12_s128_d64",
};
constexpr const char* kProfiles[] = {"zen5", "sapphire_rapids", "haswell_avx2", "neoverse_n1"};

/// Numbers with a fraction to three digits.
void round_figures(json& j) {
  if (j.is_structured())
    for (json& x : j) round_figures(x);
  else if (j.is_number_float()) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", j.get<double>());
    j = json::parse(text);
  }
}

/// What fits a line stays on one.
std::string print(const json& j, size_t indent = 0) {
  constexpr size_t kWidth = 150;
  const std::string flat = j.dump();
  if (indent + flat.size() <= kWidth || !j.is_structured() || j.empty()) return flat;
  std::string text = j.is_object() ? "{" : "[", separator = "\n";
  for (const auto& [key, value] : j.items()) {
    text += separator + std::string(indent + 1, ' ');
    if (j.is_object()) text += json(key).dump() + ": ";
    text += print(value, indent + 1);
    separator = ",\n";
  }
  return text + "\n" + std::string(indent, ' ') + (j.is_object() ? "}" : "]");
}

}  // namespace

TEST_CASE("plans") {
  const auto programs = test::programs_in(RGEN_SOURCE_DIR "/tests/data/workloads.json");
  for (const char* name : kWorkloads) {
    const auto found = std::find_if(programs.begin(), programs.end(), [&](const auto& p) { return p->name == name; });
    REQUIRE(found != programs.end());
    json plans = json::object();
    for (const char* profile : kProfiles) {
      plans[profile] = json::parse(rtile::construct(**found, hw::load_profile(profile), {1, 1}).front().plan_json);
      round_figures(plans[profile]);
    }
    const std::string file = RGEN_SOURCE_DIR "/tests/golden/data/plans/" + std::string(name) + ".json";
    const std::string difference = test::golden_difference(file, print(plans) + "\n");
    if (!difference.empty()) FAIL_CHECK(difference);
  }
}
