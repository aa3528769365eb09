// Figures of a profile's document: how they are written down when they are measured, or taken over from another device.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rgen::hw {

double rounded_to(double x, int digits);  ///< significant ones
std::string today();                      ///< YYYY-MM-DD, UTC
/// Figures of another device: whatever their source there, here they are estimates.
void restamp(nlohmann::json& node, const std::string& from);

}  // namespace rgen::hw
