// rgen-profile: measures this machine and writes its profile.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "hwmodel/profile.h"

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

// The text with another name; its layout stays.
std::string renamed(std::string text, const std::string& name) {
  const std::string from = "\"name\": \"host\"";
  if (size_t at = text.find(from); at != std::string::npos) text.replace(at, from.size(), "\"name\": " + nlohmann::json(name).dump());
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Measures this machine (clock, instruction rates, latency and bandwidth of each memory level; about a second) and writes its "
      "hardware profile."};
  std::string output, name = "host";
  bool no_measure = false;
  app.add_option("-o,--output", output, "File to write; standard output by default")->type_name("FILE");
  app.add_option("--name", name, "Name of the profile")->capture_default_str();
  app.add_flag("--no-measure", no_measure, "Only detect; take all other figures from the nearest shipped profile, marked as estimated");
  app.set_version_flag("--version", std::string(RGEN_VERSION));
  app.footer(
      "Examples:\n"
      "  rgen-profile -o node7.json --name node7    measure, then: rgen --hw node7.json SPEC\n"
      "  rgen-profile --no-measure                  print what is known without measuring\n"
      "Measure on an idle machine: each figure is the best of several short runs, but busy neighbours still lower bandwidths.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) { return app.exit(e) == 0 ? 0 : rgen::exit_status(rgen::ErrorCode::usage); }
  try {
    rgen::hw::HostOptions options;
    options.measure = !no_measure;
    const std::string text = renamed(rgen::hw::host_profile_json(options), name);
    const rgen::hw::Profile profile = rgen::hw::parse_profile(text, output.empty() ? name : output);
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
