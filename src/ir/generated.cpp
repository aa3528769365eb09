// What preset data cannot say without loops: epilogue chains and the layers of an mlp.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "ir/presets.h"

namespace rgen::ir {

namespace {

/// Elementwise steps of one operand, y. GELU's tanh form is y·sigmoid(2u), since (1 + tanh u) / 2 = sigmoid(2u).
struct Activation {
  const char *name, *text;
};
constexpr Activation activations[] = {
    {"relu", "max($, 0)"},
    {"relu6", "min(max($, 0), 6)"},
    {"gelu_erf", "0.5 * $ * (1 + erf($ * 0.70710678118654752))"},
    {"gelu_tanh", "$ * sigmoid(1.5957691216057308 * $ * (1 + 0.044715 * $ * $))"},
    {"silu", "$ * sigmoid($)"},
    {"sigmoid", "sigmoid($)"},
    {"hardswish", "$ * min(max($ + 3, 0), 6) / 6"},
    {"tanh", "tanh($)"},
};

std::string replace_all(const std::string& text, const std::string& with) {
  std::string r;
  for (char c : text) r += c == '$' ? with : std::string(1, c);
  return r;
}

std::string number(double v) {
  char buffer[40];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr};
}

/// "out[n:N, c:C] = value" in parts.
struct Result {
  std::vector<std::pair<std::string, std::string>> axes;  ///< name, extent
  std::string declared, names, value;                     ///< "n:N, c:C", "n, c"

  explicit Result(const std::string& text) {
    const size_t open = text.find('['), close = text.find(']'), equals = text.find('=', close);
    declared = text.substr(open + 1, close - open - 1);
    value = text.substr(text.find_first_not_of(' ', equals + 1));
    for (size_t at = 0; at < declared.size();) {
      const size_t end = std::min(declared.find(',', at), declared.size()), colon = declared.find(':', at);
      const size_t start = declared.find_first_not_of(' ', at);
      axes.emplace_back(declared.substr(start, colon - start), declared.substr(colon + 1, end - colon - 1));
      names += (names.empty() ? "" : ", ") + axes.back().first;
      at = end + 1;
    }
  }
  bool is_reduction() const {
    return std::any_of(std::begin(reductions), std::end(reductions),
                       [&](const char* r) { return value.compare(0, std::string(r).size(), r) == 0; }) &&
           value.find('|') != std::string::npos;
  }
  static constexpr const char* reductions[] = {"sum(", "prod(", "max(", "min("};
};

class Chain {
 public:
  Chain(Draft& draft, const Result& result, const Epilogue& epilogue) : draft_(draft), result_(result), epilogue_(epilogue) {}

  void run() {
    y_ = result_.value;
    if (!epilogue_.chain.empty() && result_.is_reduction()) store("acc");
    for (const std::string& step : epilogue_.chain) apply(step);
    draft_.statements.push_back({"out[" + result_.declared + "] = " + y_, draft_.place});
  }

 private:
  /// The value so far becomes a tensor of its own.
  void store(const std::string& name) {
    draft_.statements.push_back({name + "[" + result_.declared + "] = " + y_, draft_.place});
    y_ = name + "[" + result_.names + "]";
  }

  void apply(const std::string& step) {
    if (y_.size() > 2000) store("step" + std::to_string(++stored_));  // activations repeat their operand
    const bool read = y_.back() == ']' && y_.find(']') == y_.size() - 1 && y_.find_first_of(" (") > y_.find('[');
    const std::string y = read ? y_ : "(" + y_ + ")";
    for (const Activation& a : activations)
      if (step == a.name) {
        y_ = replace_all(a.text, y);
        return;
      }
    if (step == "scale") {
      y_ = y + " * (" + number(epilogue_.scale) + ")";
    } else if (step == "bias") {
      y_ = y + " + " + along_channel("bias", true);
    } else if (step == "batchnorm") {
      const std::string mean = along_channel("mean", false), var = along_channel("var", false), scale = along_channel("scale", false);
      y_ = "(" + y + " - " + mean + ") * rsqrt(" + var + " + " + number(epilogue_.eps) + ") * " + scale + " + " +
           along_channel("shift", false);
    } else {
      y_ = y + (step == "add" ? " + " : " * ") + like_output(step == "add" ? "addend" : "factor");
    }
  }

  std::string input(const std::string& base, std::vector<SizeText> shape, DType dtype, bool constant) {
    std::string name = base;
    for (int i = 2; std::any_of(draft_.inputs.begin(), draft_.inputs.end(), [&](const DraftInput& in) { return in.name == name; }); ++i)
      name = base + std::to_string(i);
    DraftInput in;
    in.name = name;
    in.shape = std::move(shape);
    in.dtype = dtype;
    in.constant = constant;
    in.place = draft_.place;
    draft_.inputs.push_back(std::move(in));
    return name;
  }

  std::string along_channel(const std::string& base, bool constant) {
    if (result_.axes.empty()) throw Error(ErrorCode::invalid_spec, "out is a scalar: it has no channels for '" + base + "'", draft_.place);
    auto axis = std::find_if(result_.axes.begin(), result_.axes.end(), [&](const auto& a) { return a.first == epilogue_.channel; });
    if (axis == result_.axes.end()) axis = result_.axes.end() - 1;
    return input(base, {{axis->second, draft_.place}}, DType::f32, constant) + "[" + axis->first + "]";
  }

  std::string like_output(const std::string& base) {
    std::vector<SizeText> shape;
    for (const auto& axis : result_.axes) shape.push_back({axis.second, draft_.place});
    return input(base, std::move(shape), epilogue_.dtype, false) + "[" + result_.names + "]";
  }

  Draft& draft_;
  const Result& result_;
  const Epilogue& epilogue_;
  std::string y_;
  int stored_ = 0;
};

}  // namespace

std::vector<std::string> epilogue_names() {
  std::vector<std::string> names{"bias", "add", "mul", "scale", "batchnorm"};
  for (const Activation& a : activations) names.emplace_back(a.name);
  return names;
}

void append_epilogue(Draft& draft, const std::string& result, const Epilogue& epilogue) {
  const Result parts(result);
  Chain(draft, parts, epilogue).run();
}

std::string append_mlp_layers(Draft& draft, const Bindings& bindings, DType dtype) {
  const auto& widths = bindings.list("layers").axes;
  if (widths.size() < 2)
    throw Error(ErrorCode::invalid_spec, "dims needs the widths of X and of at least one layer", draft.place + "/params/dims");
  if (widths.size() > 1000) throw Error(ErrorCode::invalid_spec, "dims has more than 1000 widths", draft.place + "/params/dims");
  std::string x = "X";
  for (size_t l = 1; l < widths.size(); ++l) {
    const std::string n = std::to_string(l), in = widths[l - 1].second, out = widths[l].second;
    DraftInput w, b;
    w.name = "W" + n, b.name = "b" + n;
    w.shape = {{in, draft.place}, {out, draft.place}}, b.shape = {{out, draft.place}};
    w.dtype = dtype;
    w.constant = b.constant = true;
    w.place = b.place = draft.place;
    draft.inputs.insert(draft.inputs.end(), {w, b});
    draft.statements.push_back(
        {"h" + n + "_sum[i:N, j:" + out + "] = sum(k:" + in + " | " + x + "[i, k] * W" + n + "[k, j])", draft.place});
    const std::string biased = "h" + n + "_sum[i, j] + b" + n + "[j]";
    if (l + 1 == widths.size()) return "out[i:N, j:" + out + "] = " + biased;
    draft.statements.push_back({"h" + n + "[i:N, j:" + out + "] = max(" + biased + ", 0)", draft.place});
    x = "h" + n;
  }
  throw Error(ErrorCode::internal, "unreachable: an mlp has a last layer");
}

}  // namespace rgen::ir
