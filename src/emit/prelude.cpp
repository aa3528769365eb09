#include "emit/prelude.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>
#include <string_view>

#include "base/embedded.h"
#include "base/error.h"
#include "emit/tensor_cores.h"

namespace rgen::emit {
namespace {

constexpr std::string_view kPreamble = "@preamble";

struct Piece {
  std::string name, text;
  std::vector<std::string> required, optional;  // ISA features
  std::vector<int> needs;                       // positions of pieces named in the code
};

/// The pieces of one vector unit. Immutable once read.
struct Prelude {
  std::vector<Piece> pieces;  // in order of definition
  std::map<std::string, int, std::less<>> position;
};

/// First match wins: what a vector unit does best itself stands before what is written for all.
std::vector<std::string_view> files_of(Simd simd, bool emulate_amx) {
  if (simd == Simd::cuda) return {"cuda", "cuda_memory", "cuda_arithmetic", "cuda_staging", "cuda_pipeline"};
  std::vector<std::string_view> files = {"common", name_of(simd)};
  if (simd == Simd::avx512) files.push_back(emulate_amx ? "amx_emulation" : "amx");
  if (simd == Simd::avx512 || simd == Simd::avx512vl) files.push_back("avx512_any");
  if (simd == Simd::avx512vl) files.push_back("avx2");
  for (std::string_view shared : {"arithmetic", "memory_loads", "memory_stores", "dot", "interleave", "math"}) files.push_back(shared);
  return files;
}

std::string_view embedded_text(std::string_view name) {
  for (const EmbeddedFile& file : embedded_preludes())
    if (file.name == name) return file.text;
  throw Error(ErrorCode::internal, "src/emit/prelude/" + std::string(name) + ".h is not embedded");
}

Piece read_marker(std::string_view line) {
  Piece piece;
  std::istringstream words{std::string(line)};
  words >> piece.name;
  std::vector<std::string>* into = nullptr;
  for (std::string word; words >> word;) {
    if (word == "!")
      into = &piece.required;
    else if (word == "?")
      into = &piece.optional;
    else if (into)
      into->push_back(word);
    else
      throw Error(ErrorCode::internal, "marker: '!' or '?' expected before '" + word + "'", "prelude piece " + piece.name);
  }
  return piece;
}

void cut(std::string_view file, std::vector<Piece>& pieces) {
  constexpr std::string_view marker = "//@ ";
  bool inside = false;
  while (!file.empty()) {
    const size_t length = std::min(file.find('\n'), file.size() - 1) + 1;
    const std::string_view line = file.substr(0, length);
    file.remove_prefix(length);
    if (line.substr(0, marker.size()) == marker) {
      pieces.push_back(read_marker(line.substr(marker.size())));
      inside = true;
    } else if (inside) {
      pieces.back().text += line;
    }
  }
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Calls `visit` with each identifier outside of `//` comments.
template <class Visit>
void for_each_identifier(std::string_view text, Visit visit) {
  for (size_t i = 0; i < text.size();) {
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (is_word(text[i])) {
      size_t end = i;
      while (end < text.size() && is_word(text[end])) ++end;
      visit(text.substr(i, end - i));
      i = end;
    } else {
      ++i;
    }
  }
}

Prelude read_prelude(Simd simd, bool emulate_amx) {
  std::vector<Piece> all;
  for (std::string_view file : files_of(simd, emulate_amx)) cut(embedded_text(file), all);
  if (simd == Simd::cuda) cut(tensor_core_pieces(), all);
  Prelude prelude;
  for (Piece& piece : all) {
    while (piece.text.size() > 1 && piece.text.substr(piece.text.size() - 2) == "\n\n") piece.text.pop_back();
    if (piece.name != kPreamble && !prelude.position.emplace(piece.name, static_cast<int>(prelude.pieces.size())).second) continue;
    prelude.pieces.push_back(std::move(piece));
  }
  for (Piece& piece : prelude.pieces)
    for_each_identifier(piece.text, [&](std::string_view word) {
      const auto found = prelude.position.find(word);
      if (found == prelude.position.end() || prelude.pieces[static_cast<size_t>(found->second)].name == piece.name) return;
      if (std::find(piece.needs.begin(), piece.needs.end(), found->second) == piece.needs.end()) piece.needs.push_back(found->second);
    });
  return prelude;
}

/// Cut and linked once per process; immutable, so shared freely between threads.
template <Simd simd, bool emulate_amx>
const Prelude& read_once() {
  static const Prelude prelude = read_prelude(simd, emulate_amx);
  return prelude;
}

const Prelude& prelude_of(Simd simd, bool emulate_amx = false) {
  switch (simd) {
    case Simd::avx512:
      return emulate_amx ? read_once<Simd::avx512, true>() : read_once<Simd::avx512, false>();
    case Simd::avx512vl:
      return read_once<Simd::avx512vl, false>();
    case Simd::avx2:
      return read_once<Simd::avx2, false>();
    case Simd::neon:
      return read_once<Simd::neon, false>();
    case Simd::portable:
      return read_once<Simd::portable, false>();
    case Simd::cuda:
      return read_once<Simd::cuda, false>();
  }
  throw Error(ErrorCode::internal, "unknown vector unit");
}

void add_with_needs(const Prelude& prelude, int i, std::vector<bool>& seen, std::vector<const Piece*>& out) {
  if (seen[static_cast<size_t>(i)]) return;
  seen[static_cast<size_t>(i)] = true;
  const Piece& piece = prelude.pieces[static_cast<size_t>(i)];
  for (int need : piece.needs) add_with_needs(prelude, need, seen, out);
  out.push_back(&piece);
}

/// The preambles, then `used` and what they need in order of definition, but each before its users.
std::vector<const Piece*> closure(const Prelude& prelude, const std::set<std::string>& used) {
  std::vector<int> roots;
  for (const std::string& name : used) {
    const auto found = prelude.position.find(name);
    if (found == prelude.position.end()) throw Error(ErrorCode::internal, "no primitive of that name", name);
    roots.push_back(found->second);
  }
  std::sort(roots.begin(), roots.end());
  std::vector<bool> seen(prelude.pieces.size());
  std::vector<const Piece*> out;
  for (size_t i = 0; i < prelude.pieces.size(); ++i)
    if (prelude.pieces[i].name == kPreamble) add_with_needs(prelude, static_cast<int>(i), seen, out);
  for (int root : roots) add_with_needs(prelude, root, seen, out);
  return out;
}

std::vector<std::string> features(Simd simd, const std::set<std::string>& used, std::vector<std::string> Piece::*kind) {
  std::set<std::string> all;
  for (const Piece* piece : closure(prelude_of(simd), used)) all.insert((piece->*kind).begin(), (piece->*kind).end());
  return {all.begin(), all.end()};
}

}  // namespace

std::string_view name_of(Simd simd) {
  constexpr std::string_view names[] = {"avx512", "avx512vl", "avx2", "neon", "portable", "cuda"};
  return names[static_cast<size_t>(simd)];
}
int lanes(Simd simd) {
  constexpr int lanes_of[] = {16, 8, 8, 4, 4, 32};
  return lanes_of[static_cast<size_t>(simd)];
}

bool prelude_has(Simd simd, const std::string& name) { return prelude_of(simd).position.count(name) != 0; }

std::vector<std::string> prelude_names(Simd simd) {
  std::vector<std::string> names;
  for (const Piece& piece : prelude_of(simd).pieces)
    if (piece.name != kPreamble) names.push_back(piece.name);
  return names;
}

std::string prelude_text(Simd simd, const std::set<std::string>& used, bool emulate_amx) {
  std::string text;
  for (const Piece* piece : closure(prelude_of(simd, emulate_amx), used)) text += piece->text;
  return text;
}

std::vector<std::string> prelude_features(Simd simd, const std::set<std::string>& used) { return features(simd, used, &Piece::required); }

std::vector<std::string> prelude_optional_features(Simd simd, const std::set<std::string>& used) {
  return features(simd, used, &Piece::optional);
}

}  // namespace rgen::emit
