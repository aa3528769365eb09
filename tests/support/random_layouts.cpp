// Elementwise programs, reductions, normalisations, and all that moves elements about.
#include <algorithm>

#include "support/random_families.h"

namespace rgen::test {

Subscript subscript(SpecWriter& w, const Axis& a, bool plain) {
  const int kind = plain ? 0 : 1 + w.draws.below(3);
  if (kind == 1) {
    const int64_t by = w.draws.below(5), spare = w.draws.below(3);
    return {a.name + " + " + std::to_string(by), a.extent + by + spare};
  }
  if (kind == 2) return {std::to_string(a.extent - 1) + " - " + a.name, a.extent};
  if (kind == 3) {
    const int64_t step = 2 + w.draws.below(3), spare = w.draws.below(3);
    return {std::to_string(step) + "*" + a.name, step * (a.extent - 1) + 1 + spare};
  }
  return {a.name, a.extent};
}

namespace {

/// A new input over some of the axes, in a drawn order.
Value leaf(SpecWriter& w, const Axes& all, bool whole) {
  Axes axes;
  for (const Axis& a : all)
    if (whole || !w.draws.one_in(3)) axes.push_back(a);
  if (w.draws.one_in(4)) w.shuffle(axes);
  std::vector<std::string> index;
  std::vector<int64_t> shape;
  for (const Axis& a : axes) {
    const Subscript s = subscript(w, a, !w.draws.one_in(14));
    index.push_back(s.text), shape.push_back(s.extent);
  }
  const DType type = w.dtype();
  return w.read(w.input("X", shape, type, w.draws.one_in(8)), index);
}

const char* operation(SpecWriter& w) {
  static constexpr const char* ops[] = {"sum", "max", "min", "prod"};
  return ops[w.draws.weighted({6, 4, 2, 1})];
}

}  // namespace

void elementwise(SpecWriter& w) {
  const Axes out = w.axes("i", w.draws.weighted({5, 8, 5, 2, 1}) == 4 ? 0 : 1 + w.draws.below(4));
  std::vector<Value> leaves{leaf(w, out, !w.draws.one_in(4))};
  for (int n = w.draws.below(3); n > 0; --n) leaves.push_back(leaf(w, out, w.draws.below(2) == 0));
  if (w.draws.one_in(4)) leaves.push_back(w.random_number());
  Value v = w.expression(std::move(leaves));
  if (w.draws.one_in(4)) {  // a value between, read again and again
    const Tensor t = w.statement("T", out, v);
    w.maybe_output(t);
    v = w.random_binary(w.read(t, out), w.random_unary(w.read(t, out)));
  }
  w.finish(w.statement("out", out, v), out);
}

void row_reduction(SpecWriter& w) {
  Axes all = w.axes("i", 1 + w.draws.below(4)), kept, reduced;
  for (const Axis& a : all) (w.draws.below(2) ? kept : reduced).push_back(a);
  if (reduced.empty()) reduced.push_back(kept.back()), kept.pop_back();
  if (w.draws.one_in(4)) w.shuffle(kept);
  if (w.draws.one_in(4)) w.shuffle(reduced);
  std::vector<Value> leaves{leaf(w, all, true)};
  if (w.draws.one_in(3)) leaves.push_back(leaf(w, all, w.draws.below(2) == 0));
  const Value v = w.expression(std::move(leaves));
  w.finish(w.reduction("S", kept, operation(w), reduced, v), kept);
}

void permutation(SpecWriter& w) {
  const Axes in = w.axes("i", 2 + w.draws.weighted({6, 3, 2}));
  Axes out = in;
  if (w.draws.below(2))
    std::reverse(out.begin(), out.end());
  else
    w.shuffle(out);
  const Tensor x = w.input("X", extents(in), w.dtype());
  Value v = w.read(x, in);
  if (w.draws.one_in(4)) v = w.random_unary(v);
  if (w.draws.one_in(4)) v = w.random_binary(v, leaf(w, out, w.draws.below(2) == 0));
  w.finish(w.statement("out", out, v), out);
}

void stencil(SpecWriter& w) {
  Axes out = w.axes("i", 1 + w.draws.weighted({3, 6, 2}));
  const bool border = w.draws.below(2) == 0;
  const int reach = 1 + w.draws.below(2);
  const size_t moving = size_t(w.draws.below(int(out.size())));
  std::vector<int64_t> shape = extents(out);
  if (!border) shape[moving] += 2 * reach;
  const Tensor x = w.input("X", shape, w.dtype());
  const std::string fill = w.random_fill(x);
  const auto at = [&](int by) {
    std::vector<std::string> index = names(out);
    const int shift = border ? by : by + reach;
    if (shift != 0) index[moving] += (shift < 0 ? " - " : " + ") + std::to_string(shift < 0 ? -shift : shift);
    return border ? w.read_padded(x, index, w.draws.one_in(6) ? w.random_fill(x) : fill) : w.read(x, index);
  };
  Value v = at(0);
  for (int by = 1; by <= reach; ++by) {
    v = w.random_binary(v, at(-by));
    v = w.random_binary(v, at(by));
  }
  w.finish(w.statement("out", out, v), out);
}

void normalisation(SpecWriter& w) {
  w.budget(w.left() / 4);
  Axes all = w.axes("i", 1 + w.draws.weighted({1, 6, 3})), kept;
  const size_t along = w.draws.one_in(4) ? size_t(w.draws.below(int(all.size()))) : all.size() - 1;
  Axes reduced{all[along]};
  for (size_t a = 0; a < all.size(); ++a)
    if (a != along) kept.push_back(all[a]);
  if (!kept.empty() && w.draws.one_in(6)) reduced.push_back(kept.back()), kept.pop_back();
  double n = 1;
  for (const Axis& a : reduced) n *= double(a.extent);
  const std::string count = SpecWriter::number(n).text;
  const Tensor x = w.input("X", extents(all), w.float_dtype());
  const Value v = w.draws.one_in(5) ? w.random_unary(w.read(x, all)) : w.read(x, all);
  const std::string one = "(" + v.text + ")";
  const auto of_rows = [&](const Tensor& t) { return w.read(t, kept).text; };
  const auto scaled = [&](Value r) {  // gamma and beta
    if (w.draws.below(2)) {
      const Tensor g = w.input("gamma", extents(reduced), DType::f32, true);
      r = {"(" + r.text + ") * " + w.read(g, reduced).text, -3.5 * 30, 3.5 * 30, false};
    }
    if (w.draws.below(2)) {
      const Tensor b = w.input("beta", extents(reduced), DType::f32, true);
      r = {"(" + r.text + ") + " + w.read(b, reduced).text, r.lo - 3.5, r.hi + 3.5, false};
    }
    return r;
  };
  switch (w.draws.below(5)) {
    case 0: {  // softmax, or its logarithm
      const Tensor most = w.reduction("most", kept, "max", reduced, v);
      w.maybe_output(most);
      const Tensor e = w.statement("e", all, {"exp(" + one + " - " + of_rows(most) + ")", 0, 1, false});
      const Tensor total = w.reduction("total", kept, "sum", reduced, w.read(e, all));
      w.maybe_output(total);
      const Value r = w.draws.one_in(4) ? Value{one + " - " + of_rows(most) + " - log(" + of_rows(total) + ")", -90, 0, false}
                                        : Value{w.read(e, all).text + " / " + of_rows(total), 0, 1, false};
      return w.finish(w.statement("out", all, r), all);
    }
    case 1: {  // root mean square
      const Tensor s = w.reduction("squares", kept, "sum", reduced, {one + "*" + one, 0, 8300, false});
      const Tensor inv = w.statement("inverse", kept, {"rsqrt(" + of_rows(s) + " / " + count + " + 1e-3)", 0, 32, false});
      return w.finish(w.statement("out", all, scaled({one + " * " + of_rows(inv), -30, 30, false})), all);
    }
    case 2: {  // mean and variance
      const Tensor s = w.reduction("total", kept, "sum", reduced, v);
      const Tensor mean = w.statement("mean", kept, {of_rows(s) + " / " + count, v.lo, v.hi, false});
      w.maybe_output(mean);
      const std::string d = "(" + one + " - " + of_rows(mean) + ")";
      const Tensor q = w.reduction("squares", kept, "sum", reduced, {d + " * " + d, 0, 33200, false});
      const Tensor inv = w.statement("inverse", kept, {"rsqrt(" + of_rows(q) + " / " + count + " + 0.01)", 0, 10, false});
      return w.finish(w.statement("out", all, scaled({d + " * " + of_rows(inv), -30, 30, false})), all);
    }
    case 3: {  // divided by the sum of magnitudes, or the largest
      const Tensor s = w.reduction("most", kept, w.draws.below(2) ? "max" : "sum", reduced, {"abs(" + v.text + ")", 0, 91, false});
      return w.finish(w.statement("out", all, scaled({one + " / (" + of_rows(s) + " + 0.5)", -30, 30, false})), all);
    }
    default: {  // two reductions of the same rows
      const Tensor high = w.reduction("high", kept, "max", reduced, v), low = w.reduction("low", kept, "min", reduced, v);
      return w.finish(
          w.statement("out", all,
                      {"(" + one + " - " + of_rows(low) + ") / (" + of_rows(high) + " - " + of_rows(low) + " + 1)", 0, 1, false}),
          all);
    }
  }
}

void reshaping(SpecWriter& w) {
  const int kind = w.draws.below(6);
  const Axis a = w.axis("i"), b = w.axis("j"), c = w.axis("k", w.extent(20));
  const std::string A = std::to_string(a.extent), B = std::to_string(b.extent);
  const DType type = w.dtype();
  Axes out;
  Value v;
  if (kind == 0) {  // two dimensions flattened
    const Axis flat = w.axis("f", a.extent * b.extent);
    v = w.read(w.input("X", {a.extent, b.extent, c.extent}, type), {flat.name + "/" + B, flat.name + "%" + B, c.name});
    out = w.draws.below(2) ? Axes{flat, c} : Axes{c, flat};
  } else if (kind == 1) {  // one dimension cut in two
    v = w.read(w.input("X", {a.extent * b.extent, c.extent}, type), {a.name + "*" + B + " + " + b.name, c.name});
    out = {a, b, c};
    if (w.draws.below(2)) w.shuffle(out);
  } else if (kind == 2) {  // resized by repeating
    const int64_t d = 2 + w.draws.below(3);
    const Tensor x = w.input("X", {(a.extent + d - 1) / d, c.extent, b.extent}, type);
    const int64_t late = w.draws.below(4);  // the first rows are of quotients below zero
    if (late == 0) {
      v = w.read(x, {a.name + "/" + std::to_string(d), c.name, b.name});
    } else {
      const std::string shifted =
          late == 3 ? std::to_string(a.extent / 2) + " - " + a.name : a.name + " - " + std::to_string(late);  // 3: backwards, then below
      const Value padded = w.read_padded(x, {"(" + shifted + ")/" + std::to_string(d), c.name, b.name}, "0");
      v = {padded.text, std::min(x.lo, 0.0), std::max(x.hi, 0.0), x.integer};
    }
    out = w.draws.below(2) ? Axes{a, c, b} : Axes{a, b, c};
  } else if (kind == 3) {  // depth to space
    const int64_t r = 2 + w.draws.below(2);
    const std::string R = std::to_string(r);
    v = w.read(w.input("X", {c.extent * r, (a.extent + r - 1) / r, b.extent}, type),
               {c.name + "*" + R + " + " + a.name + "%" + R, a.name + "/" + R, b.name});
    out = {c, a, b};
  } else if (kind == 4) {  // one after the other
    const Axis flat = w.axis("f", a.extent + b.extent);
    const Tensor x = w.input("X", {a.extent, c.extent}, type), y = w.input("Y", {b.extent, c.extent}, type);
    v = {"select(" + flat.name + " < " + A + ", " + w.read_padded(x, {flat.name, c.name}, "0").text + ", " +
             w.read_padded(y, {flat.name + " - " + A, c.name}, "0").text + ")",
         std::min(x.lo, 0.0), std::max(x.hi, 0.0), x.integer};
    out = w.draws.below(2) ? Axes{flat, c} : Axes{c, flat};
  } else {                                                                                   // rolled, or repeated
    const int64_t rows = std::max<int64_t>(2, a.extent), by = 1 + w.draws.below(int(rows));  // x % 1 uses no axis
    const Axis longer = w.axis("f", rows + w.draws.below(3) * 7);
    v = w.read(w.input("X", {rows, b.extent}, type),
               {"(" + longer.name + " + " + std::to_string(by) + ")%" + std::to_string(rows), b.name});
    out = w.draws.below(2) ? Axes{longer, b} : Axes{b, longer};
  }
  if (w.draws.one_in(3)) {
    Axes kept = out;
    const size_t at = size_t(w.draws.below(int(out.size())));
    kept.erase(kept.begin() + std::ptrdiff_t(at));
    return w.finish(w.reduction("S", kept, operation(w), {out[at]}, v), kept);
  }
  if (w.draws.one_in(3)) v = w.random_unary(v);
  w.finish(w.statement("out", out, v), out);
}

void index_values(SpecWriter& w) {
  const Axis a = w.axis("i"), b = w.axis("j");
  const Axes out = {a, b};
  const Value weight{"(" + b.name + " - 2*" + a.name + " + 1)", -600, 300, true};
  switch (w.draws.below(5)) {
    case 0: {  // a triangle
      const Value x = leaf(w, out, true);
      return w.finish(
          w.statement("out", out,
                      {"select(" + a.name + " >= " + b.name + ", " + x.text + ", 0)", std::min(x.lo, 0.0), std::max(x.hi, 0.0), x.integer}),
          out);
    }
    case 1: {  // weights that grow along an axis
      const Value x = leaf(w, out, true);
      const Value v = w.random_binary(w.tame(x), w.tame(weight));
      return w.finish(w.reduction("S", {a}, operation(w), {b}, v), {a});
    }
    case 2: {  // a checkerboard, computed lane by lane
      const Value x = leaf(w, out, true);
      const std::string odd = "(" + a.name + " + " + b.name + ")%" + std::to_string(2 + w.draws.below(3));
      return w.finish(
          w.statement("out", out,
                      {"select(" + odd + " == 0, " + x.text + ", " + odd + ")", std::min(x.lo, 0.0), std::max(x.hi, 5.0), x.integer}),
          out);
    }
    case 3:  // nothing but axes
      return w.finish(w.statement("out", out, w.draws.below(2) ? weight : w.cast(DType::f32, weight)), out);
    default: {  // a position encoding
      const Value x = leaf(w, out, false);
      return w.finish(w.statement("out", out, w.random_binary(x, w.random_unary(w.tame(w.cast(DType::f32, weight))))), out);
    }
  }
}

}  // namespace rgen::test
