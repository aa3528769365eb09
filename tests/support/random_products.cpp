// Contractions, convolutions, windows, and chains of them.
#include <algorithm>
#include <cmath>

#include "support/random_families.h"

namespace rgen::test {

namespace {

struct Types {
  DType a, b;
};
Types product_types(SpecWriter& w) {
  using enum DType;
  static constexpr Types all[] = {{f32, f32}, {bf16, bf16}, {s8, s8},    {u8, s8},   {f16, f16}, {f32, bf16},
                                  {s8, u8},   {u8, u8},     {bf16, f32}, {s32, s32}, {f32, s8},  {f16, f32}};
  return all[size_t(w.draws.weighted({16, 8, 5, 5, 3, 1, 2, 2, 1, 1, 1, 1}))];
}

/// Both factors multiplied, in one of the forms in which people write it.
Value multiplied(SpecWriter& w, const Value& a, const Value& b) {
  const bool integer = a.integer && b.integer;
  const double m = std::max(std::abs(a.lo), std::abs(a.hi)) * std::max(std::abs(b.lo), std::abs(b.hi));
  switch (w.draws.weighted({24, 3, 2, 2, 2, 1})) {
    case 1:
      return {"f32(" + a.text + ") * f32(" + b.text + ")", -m, m, false};
    case 2:
      return {b.text + " * " + a.text, -m, m, integer};
    case 3:
      return {"(" + a.text + ") * (" + b.text + ") * 0.5", -m, m, false};
    case 4: {
      const double most = std::max(std::abs(a.lo), std::abs(a.hi)) + std::max(std::abs(b.lo), std::abs(b.hi));
      return {"(" + a.text + " - " + b.text + ") * (" + a.text + " - " + b.text + ")", 0, most * most, integer};
    }
    case 5: {
      static constexpr DType narrow[] = {DType::bf16, DType::f16, DType::s8};
      const Value c = w.cast(narrow[w.draws.below(3)], a);
      return {c.text + " * " + b.text, -m, m, c.integer && b.integer};
    }
    default:
      return {a.text + " * " + b.text, -m, m, integer};
  }
}

const char* reduction_of_products(SpecWriter& w) {
  static constexpr const char* ops[] = {"sum", "max", "min"};
  return ops[w.draws.weighted({30, 1, 1})];
}

Value read_subscripted(SpecWriter& w, const std::string& prefix, const Axes& axes, DType type, bool constant, int odd) {
  std::vector<std::string> index;
  std::vector<int64_t> shape;
  for (const Axis& a : axes) {
    const Subscript s = subscript(w, a, !w.draws.one_in(odd));
    index.push_back(s.text), shape.push_back(s.extent);
  }
  return w.read(w.input(prefix, shape, type, constant), index);
}

}  // namespace

Tensor product(SpecWriter& w, const Axes& out, const Axes& reduced, const Axes& in_a, const Axes& in_b) {
  const Types types = product_types(w);
  Axes a = in_a, b = in_b;
  w.shuffle(a), w.shuffle(b);
  const Value x = read_subscripted(w, "A", a, types.a, w.draws.one_in(8), 16);
  const Value y = read_subscripted(w, "B", b, types.b, !w.draws.one_in(3), 16);
  const Value v = multiplied(w, x, y);
  return w.reduction("C", out, reduction_of_products(w), reduced, v);
}

void contraction(SpecWriter& w) {
  Axes batch, shared_batch, m, n, k;
  k = w.axes("k", 1 + w.draws.weighted({8, 2}));
  n = w.axes("n", w.draws.weighted({8, 1, 2}) == 1 ? 0 : 1 + w.draws.weighted({6, 1}));
  m = w.axes("m", w.draws.weighted({8, 1}) == 1 ? 0 : 1 + w.draws.weighted({6, 1}));
  batch = w.axes("b", w.draws.weighted({6, 2, 1}));
  for (const Axis& b : batch)
    if (!w.draws.one_in(3)) shared_batch.push_back(b);  // the others are broadcast to the second operand
  Axes out = batch + m + n;
  if (w.draws.one_in(4)) w.shuffle(out);
  if (w.draws.one_in(16)) {  // one tensor twice
    const DType type = w.dtype();
    const Tensor x = w.input("A", extents(k + m), type, w.draws.one_in(3));
    Axes other;
    for (const Axis& a : m) other.push_back(w.axis("o", a.extent));
    const Value v = multiplied(w, w.read(x, k + m), w.read(x, k + other));
    return w.finish(w.reduction("C", m + other, "sum", k, v), m + other);
  }
  w.finish(product(w, out, k, batch + m + k, shared_batch + n + k), out);
}

namespace {

/// An extent of several instructions' width.
int64_t wide(SpecWriter& w, int64_t least) {
  const int64_t e = std::min<int64_t>(least + w.draws.below(100), std::max<int64_t>(least, w.left()));
  w.budget(w.left() / e);
  return e;
}

}  // namespace

void dense_product(SpecWriter& w) {
  using enum DType;
  static constexpr Types types[] = {{bf16, bf16}, {s8, s8}, {u8, s8}, {u8, u8}, {s8, u8}, {f32, f32}};
  const Types type = types[w.draws.weighted({4, 3, 3, 1, 1, 1})];
  w.budget(std::max<int64_t>(w.left(), 1 << 14));
  const Axis k = w.axis("k", wide(w, 8)), n = w.axis("n", wide(w, 8)), m = w.axis("m", wide(w, 1));
  const Axes batch = w.axes("b", w.draws.one_in(6) ? 1 : 0);
  const bool turned = w.draws.one_in(3);
  const Tensor a = w.input("A", extents(batch + Axes{m, k}), type.a),
               b = w.input("B", turned ? extents({n, k}) : extents({k, n}), type.b, true);
  const Value x = w.read(a, batch + Axes{m, k}), y = w.read(b, turned ? Axes{n, k} : Axes{k, n});
  const Axes out = w.draws.one_in(8) ? batch + Axes{n, m} : batch + Axes{m, n};
  w.finish(w.reduction("C", out, "sum", {k}, multiplied(w, x, y)), out);
}

namespace {

/// One spatial dimension of a window: output axis, window axis, the input's extent and the index text.
struct Window {
  Axis out, tap;
  int64_t extent;
  std::string index;
  bool padded;
};

Window window(SpecWriter& w, int64_t most_taps, bool may_pad) {
  const Axis tap = w.axis("r", w.draws.one_in(8) ? w.small(7) : w.small(most_taps)), out = w.axis("p");
  const int64_t stride = 1 + w.draws.weighted({6, 3, 1}), dilation = 1 + w.draws.weighted({6, 2, 1});
  const int64_t reach = dilation * (tap.extent - 1) + 1;
  const int most = int(reach) * (w.draws.one_in(6) ? 2 : 1);  // of the border: a window may lie outside altogether
  int64_t before = 0, after = 0;
  if (may_pad && w.draws.below(2)) before = w.draws.below(most), after = w.draws.one_in(4) ? w.draws.below(most) : before;
  const int64_t needed = stride * (out.extent - 1) + reach;
  // a window that starts or ends beyond the border, and elements at the end that no window reaches
  const int64_t extent = std::max<int64_t>(1, needed - before - after + (w.draws.one_in(4) ? w.draws.below(int(stride) + 1) : 0));
  std::string index = (stride == 1 ? "" : std::to_string(stride) + "*") + out.name + " + " +
                      (dilation == 1 ? "" : std::to_string(dilation) + "*") + tap.name + (before ? " - " + std::to_string(before) : "");
  return {out, tap, extent, std::move(index), before > 0 || needed - before > extent};
}

}  // namespace

void convolution(SpecWriter& w) {
  const int spatial = 1 + w.draws.weighted({3, 5, 1});
  std::vector<Window> windows;
  const int kind = w.draws.weighted({10, 3, 3});  // dense, depthwise, grouped
  const Axis c = w.axis("c", kind == 1 ? 1 : w.extent(70)), o = w.axis("o", w.extent(130));
  const int64_t groups = kind == 2 ? 1 + w.small(4) : 1;
  for (int i = 0; i < spatial; ++i) windows.push_back(window(w, 4, true));
  Axes batch = w.axes("n", w.draws.weighted({3, 2}));
  const Types types = product_types(w);
  bool padded = false;
  Axes taps, places;
  for (const Window& x : windows) padded |= x.padded, taps.push_back(x.tap), places.push_back(x.out);

  // groups: output channel g·O + o reads the channels of its group
  const Axis channel = kind == 2 ? Axis{o.name, o.extent * groups} : o;
  std::string from = c.name;
  if (kind == 1) from = channel.name;
  if (kind == 2) from = channel.name + "/" + std::to_string(o.extent) + "*" + std::to_string(c.extent) + " + " + c.name;
  const int64_t channels = kind == 1 ? channel.extent : c.extent * groups;

  std::vector<std::string> index = names(batch);
  std::vector<int64_t> shape = extents(batch);
  const bool channels_last = w.draws.below(2) == 0;
  const auto put_channel = [&] { index.push_back(from), shape.push_back(channels); };
  if (!channels_last) put_channel();
  for (const Window& x : windows) index.push_back(x.index), shape.push_back(x.extent);
  if (channels_last) put_channel();
  const Tensor image = w.input("X", shape, types.a);
  const Value x = padded ? w.read_padded(image, index, w.random_fill(image)) : w.read(image, index);

  const Axes reduced = kind == 1 ? taps : w.draws.one_in(3) ? taps + Axes{c} : Axes{c} + taps;
  Axes weights = kind == 1 ? Axes{channel} + taps : Axes{channel, c} + taps;
  if (w.draws.one_in(4)) w.shuffle(weights);
  const Tensor f = w.input("W", extents(weights), types.b, !w.draws.one_in(6));
  Axes out = batch + (channels_last ? places + Axes{channel} : Axes{channel} + places);
  if (w.draws.one_in(10)) w.shuffle(out);
  w.finish(w.reduction("C", out, "sum", reduced, multiplied(w, x, w.read(f, weights))), out);
}

void pooling(SpecWriter& w) {
  const int spatial = 1 + w.draws.weighted({3, 5});
  static constexpr const char* ops[] = {"max", "sum", "min", "prod"};
  const std::string op = ops[w.draws.weighted({6, 5, 2, 1})];
  std::vector<Window> windows;
  for (int i = 0; i < spatial; ++i) windows.push_back(window(w, 4, true));
  const Axes others = w.axes("c", w.draws.below(3));
  bool padded = false;
  Axes taps, places;
  for (const Window& x : windows) padded |= x.padded, taps.push_back(x.tap), places.push_back(x.out);
  const bool last = w.draws.below(2) == 0;
  std::vector<std::string> index;
  std::vector<int64_t> shape;
  const auto put_others = [&] {
    for (const Axis& a : others) index.push_back(a.name), shape.push_back(a.extent);
  };
  if (!last) put_others();
  for (const Window& x : windows) index.push_back(x.index), shape.push_back(x.extent);
  if (last) put_others();
  const Tensor image = w.input("X", shape, w.dtype());
  const std::string fill = op == "max" ? "-inf" : op == "min" ? "inf" : op == "prod" ? "1" : w.random_fill(image);
  Value x = padded ? w.read_padded(image, index, fill) : w.read(image, index);
  if (op != "max" && op != "min" && w.draws.one_in(3)) x = w.random_unary(x);
  Axes out = last ? places + others : others + places;
  if (w.draws.one_in(8)) w.shuffle(out);
  Tensor t = w.reduction("P", out, op, taps, x);
  if (op == "sum" && w.draws.below(2)) {
    double n = 1;
    for (const Axis& a : taps) n *= double(a.extent);
    t = w.statement("mean", out, {w.read(t, out).text + " / " + SpecWriter::number(n).text, t.lo / n, t.hi / n, false});
  }
  w.finish(t, out);
}

namespace {

/// An activation between two layers, or none.
Tensor between(SpecWriter& w, const Tensor& t, const Axes& axes) {
  if (w.draws.one_in(4)) return t;
  Value v = w.read(t, axes);
  if (w.draws.below(2)) {
    const Tensor bias = w.input("bias", {axes.back().extent}, DType::f32, true);
    v = {v.text + " + " + bias.name + "[" + axes.back().name + "]", v.lo + bias.lo, v.hi + bias.hi, false};
  }
  v = w.draws.below(2) ? w.random_unary(v) : Value{"max(" + v.text + ", 0)", 0, v.hi, v.integer};
  if (w.draws.one_in(6)) v = w.cast(DType::bf16, v);
  return w.statement("H", axes, v);
}

/// Layers: each multiplies the depth of the one before away.
void layers(SpecWriter& w) {
  const int64_t work = w.left();
  const Axes rows = w.axes("m", 1 + w.draws.weighted({4, 1}));
  Axis depth = w.axis("k");
  Tensor t = w.input("X", extents(rows + Axes{depth}), w.float_dtype());
  if (w.draws.one_in(4)) t = w.statement("G", rows + Axes{depth}, w.random_unary(w.read(t, rows + Axes{depth})));
  for (int n = 2 + w.draws.below(2);; --n) {
    int64_t points = depth.extent;
    for (const Axis& a : rows) points *= a.extent;
    w.budget(work / points);
    const Axis next = w.axis("n");
    const bool turned = w.draws.below(2) != 0;
    const Axes of_f = turned ? Axes{next, depth} : Axes{depth, next};
    const DType type = w.float_dtype();
    const Tensor f = w.input("W", extents(of_f), type, !w.draws.one_in(4));
    t = w.reduction("C", rows + Axes{next}, "sum", {depth}, multiplied(w, w.read(t, rows + Axes{depth}), w.read(f, of_f)));
    if (n == 1) return w.finish(t, rows + Axes{next});
    t = between(w, t, rows + Axes{next});
    w.maybe_output(t);
    depth = next;
  }
}

/// softmax(Q·Kᵀ)·V, with or without a mask, heads and the softmax.
void attention(SpecWriter& w) {
  w.budget(w.left() / 2);
  const Axes heads = w.axes("h", w.draws.below(2));
  const Axis i = w.axis("i"), d = w.axis("d"), j = w.axis("j"), e = w.axis("e", d.extent);
  const DType type = w.float_dtype();
  const Tensor q = w.input("Q", extents(heads + Axes{i, d}), type), k = w.input("K", extents(heads + Axes{j, d}), type),
               v = w.input("V", extents(heads + Axes{j, e}), type);
  const Axes square = heads + Axes{i, j}, row = heads + Axes{i}, out = heads + Axes{i, e};
  Tensor s = w.reduction("S", square, "sum", {d}, multiplied(w, w.read(q, heads + Axes{i, d}), w.read(k, heads + Axes{j, d})));
  if (w.draws.below(2)) s = w.statement("scaled", square, {w.read(s, square).text + " * 0.25", s.lo / 4, s.hi / 4, false});
  if (w.draws.one_in(3))
    s = w.statement("masked", square,
                    {"select(" + i.name + " >= " + j.name + ", " + w.read(s, square).text + ", -1000)", s.lo - 1000, s.hi, false});
  if (w.draws.below(4)) {
    const Tensor most = w.reduction("most", row, "max", {j}, w.read(s, square));
    const Tensor p = w.statement("p", square, {"exp(" + w.read(s, square).text + " - " + w.read(most, row).text + ")", 0, 1, false});
    const Tensor total = w.reduction("total", row, "sum", {j}, w.read(p, square));
    s = w.statement("A", square, {w.read(p, square).text + " / " + w.read(total, row).text, 0, 1, false});
  }
  w.finish(w.reduction("O", out, "sum", {j}, multiplied(w, w.read(s, square), w.read(v, heads + Axes{j, e}))), out);
}

/// A window over channels last, then another, or a product over the channels; borders may be those of the tensor between.
void windows_in_a_row(SpecWriter& w) {
  w.budget(w.left() / 2);
  const Axis c = w.axis("c", w.extent(40));
  const Window first = window(w, 3, false), cross = window(w, 3, true);
  const Tensor x = w.input("X", {first.extent, c.extent}, w.float_dtype());
  const DType type = w.float_dtype();
  const Tensor f = w.input("W", {c.extent, first.tap.extent}, type, w.draws.below(2) == 0);
  const Axes out = {first.out, c};
  Tensor t = w.reduction("D", out, "sum", {first.tap}, multiplied(w, w.read(x, {first.index, c.name}), w.read(f, {c, first.tap})));
  t = between(w, t, out);
  if (w.draws.below(2)) {  // 1×1
    const Axis o = w.axis("o", w.extent(40));
    const Tensor g = w.input("U", {o.extent, c.extent}, type, w.draws.below(2) == 0);
    return w.finish(w.reduction("P", {first.out, o}, "sum", {c}, multiplied(w, w.read(t, out), w.read(g, {o, c}))), {first.out, o});
  }
  const int64_t places = first.out.extent, taps = std::min(cross.tap.extent, places);
  const Axis tap = w.axis("s", taps), place = w.axis("q", places);
  const std::string at = place.name + " + " + tap.name + " - " + std::to_string(taps / 2);
  w.finish(w.reduction("P", {place, c}, w.draws.below(2) ? "max" : "sum", {tap}, w.read_padded(t, {at, c.name}, "0")), {place, c});
}

/// A product whose rows are then reduced, and both made into a result.
void product_of_rows(SpecWriter& w) {
  w.budget(w.left() / 2);
  const Axis m = w.axis("m"), n = w.axis("n"), k = w.axis("k");
  Tensor t = product(w, {m, n}, {k}, {m, k}, {n, k});
  w.maybe_output(t);
  t = w.statement("T", {m, n}, w.tame(w.read(t, Axes{m, n})));
  const bool rows = w.draws.below(3) != 2;
  const Axes kept = {rows ? m : n}, reduced = {rows ? n : m};
  const Value v = w.random_unary(w.read(t, Axes{m, n}));
  const Tensor r = w.reduction("R", kept, w.draws.below(2) ? "max" : "sum", reduced, v);
  if (w.draws.one_in(3)) return w.finish(r, kept);
  w.finish(w.statement("Z", {m, n}, w.random_binary(w.read(t, Axes{m, n}), w.tame(w.read(r, kept)))), {m, n});
}

}  // namespace

void chain(SpecWriter& w) {
  static constexpr void (*kinds[])(SpecWriter&) = {layers, attention, windows_in_a_row, product_of_rows};
  kinds[w.draws.below(4)](w);
}

}  // namespace rgen::test
