#include "hwmodel/figures.h"

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

namespace rgen::hw {

double rounded_to(double x, int digits) {
  if (!(x > 0)) return x;
  const double scale = std::pow(10.0, digits - 1 - std::floor(std::log10(x)));
  return std::round(x * scale) / scale;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

void restamp(nlohmann::json& node, const std::string& from) {
  if (node.is_object() && node.contains("source")) {
    node["source"] = "estimated";
    node.erase("date");
    node["note"] = "from " + from;
    return;
  }
  for (nlohmann::json& child : node)
    if (child.is_structured()) restamp(child, from);
}

}  // namespace rgen::hw
