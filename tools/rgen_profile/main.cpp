// rgen-profile: measures this machine and writes its profile.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "hwmodel/profile.h"
#include "rgen/rgen.hpp"

namespace {

// By rename: what was there stays whole until the new profile is.
void write_file(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".part";
  errno = 0;
  std::ofstream out(temporary, std::ios::binary);
  out << text;
  out.close();
  std::error_code failed(out ? 0 : errno != 0 ? errno : EIO, std::generic_category());
  if (!failed) std::filesystem::rename(temporary, path, failed);
  if (failed) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw rgen::Error(rgen::ErrorCode::usage, "cannot be written: " + failed.message(), path);
  }
}

// The text with another name; its layout stays. The profile's own is the first of the document.
std::string renamed(std::string text, const std::string& name) {
  const std::string key = "\"name\": ";
  const size_t at = text.find(key), begin = at + key.size();
  if (at != std::string::npos) text.replace(begin, text.find(',', begin) - begin, nlohmann::json(name).dump());
  return text;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Measures this machine (clock, instruction rates, latency and bandwidth of each memory level; about a second) and writes its "
      "hardware profile."};
  std::string output, name;
  bool no_measure = false;
  int device = -1;
  app.add_option("-o,--output", output, "File to write; standard output by default")->type_name("FILE");
  app.add_option("--name", name, "Name of the profile (default: host; of a GPU its own)");
  app.add_option("--device", device, "Measure this GPU instead (its number)")->check(CLI::Range(0, 1023))->type_name("N");
  app.add_flag("--no-measure", no_measure, "Only detect; take all other figures from the nearest shipped profile, marked as estimated");
  app.set_version_flag("--version", std::string(RGEN_VERSION));
  app.footer(
      "Examples:\n"
      "  rgen-profile -o node7.json --name node7    measure, then: rgen --hw node7.json SPEC\n"
      "  rgen-profile --device 0 -o gpu.json        measure a GPU\n"
      "  rgen-profile --no-measure                  print what is known without measuring\n"
      "Measure on an idle machine: each figure is the best of several short runs, but busy neighbours still lower bandwidths.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) { return app.exit(e) == 0 ? 0 : rgen::exit_status(rgen::ErrorCode::usage); }
  try {
    rgen::hw::HostOptions options;
    options.measure = !no_measure;
    std::string text = device < 0 ? rgen::hw::host_profile_json(options)
                                  : rgen::device_profile_json({variable("RGEN_CUDA"), device}, options.measure, variable("RGEN_NVRTC"));
    if (!name.empty()) text = renamed(std::move(text), name);
    const rgen::hw::Profile profile = rgen::hw::parse_profile(text, output.empty() ? "profile" : output);
    if (output.empty())
      std::cout << text;
    else
      write_file(output, text);
    std::cerr << profile.title << ": " << profile.cores << " cores, " << profile.ghz << " GHz, " << profile.vector_bits
              << "-bit vectors, hash " << profile.hash << "\n";
    return 0;
  } catch (const rgen::Error& e) {
    std::cerr << "rgen-profile: " << e.what() << "\n";
    return rgen::exit_status(e.code());
  } catch (const std::exception& e) {
    std::cerr << "rgen-profile: " << e.what() << "\n";
    return rgen::exit_status(rgen::ErrorCode::internal);
  }
}
