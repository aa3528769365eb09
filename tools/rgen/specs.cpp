#include "rgen/specs.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "rgen/options.h"
#include "rgen/report.h"

namespace rgen::cli {

namespace fs = std::filesystem;

namespace {

std::map<std::string, int64_t> parse_extents(const std::vector<std::string>& extents) {
  std::map<std::string, int64_t> values;
  for (const std::string& e : extents) {
    const size_t equal = e.find('=');
    int64_t value = 0;
    const char *begin = e.data() + equal + 1, *end = e.data() + e.size();
    if (equal == 0 || equal == std::string::npos || begin == end) throw Error(ErrorCode::usage, "expected NAME=EXTENT", "-D " + e);
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || stop != end) throw Error(ErrorCode::usage, "the extent is not a number", "-D " + e);
    if (!values.emplace(e.substr(0, equal), value).second) throw Error(ErrorCode::usage, "given twice", "-D " + e.substr(0, equal));
  }
  return values;
}

/// A statement of the short form; a file of such a name is still a file.
bool is_expression(const std::string& spec) {
  return spec.find('=') != std::string::npos && spec.find('[') != std::string::npos && !fs::exists(spec);
}

std::string read_stream(std::istream& in) { return {std::istreambuf_iterator<char>(in), {}}; }

std::string read_spec_file(const std::string& path) {
  if (path == "-") return read_stream(std::cin);
  std::error_code ec;
  if (fs::is_directory(path, ec)) throw Error(ErrorCode::invalid_spec, "is a folder, not a spec", path);
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    const std::string hint = nearest(path, verbs());
    throw Error(ErrorCode::invalid_spec,
                "no such file" + (hint.empty() ? std::string(", and not an expression like 'C[m,n] = sum(k | A[m,k]*B[k,n])'")
                                               : " (did you mean the verb '" + hint + "'?)"),
                path);
  }
  return read_stream(in);
}

Job failed(std::string label, Error error) {
  return {std::move(label), [error]() -> Program { throw error; }};
}

/// Appends the programs of a document, or the one that FILE#NAME picks.
void read_document(const std::string& spec, std::vector<Job>& jobs) {
  std::string path = spec, name;
  if (const size_t hash = spec.rfind('#'); hash != std::string::npos && !fs::exists(spec)) {
    path = spec.substr(0, hash);
    name = spec.substr(hash + 1);
  }
  const std::string origin = path == "-" ? "standard input" : path;
  std::vector<SpecEntry> entries = parse_specs(read_spec_file(path), origin);
  std::vector<std::string> names;
  bool found = name.empty();
  for (SpecEntry& e : entries) {
    names.push_back(e.name);
    if (!name.empty() && e.name != name) continue;
    found = true;
    jobs.push_back({e.name.empty() ? origin : e.name, std::move(e.build)});
  }
  if (!found) {
    const std::string hint = nearest(name, names);
    throw Error(ErrorCode::invalid_spec, "no program '" + name + "'" + (hint.empty() ? "" : " (did you mean '" + hint + "'?)"), origin);
  }
}

}  // namespace

std::vector<Job> read_jobs(const std::vector<std::string>& specs, const std::vector<std::string>& extents) {
  const std::map<std::string, int64_t> values = parse_extents(extents);
  std::vector<Job> jobs;
  bool any_expression = false;
  for (const std::string& spec : specs) {
    if (is_expression(spec)) {
      any_expression = true;
      jobs.push_back({spec, [spec, values] { return Program::expression(spec, values); }});
      continue;
    }
    try {
      read_document(spec, jobs);
    } catch (const Error& e) { jobs.push_back(failed(spec, e)); }
  }
  if (!values.empty() && !any_expression)
    throw Error(ErrorCode::usage, "extents belong to a short form on the command line; a spec in a file has its own", "-D");
  return jobs;
}

}  // namespace rgen::cli
