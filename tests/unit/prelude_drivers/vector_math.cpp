// The largest error of each elementary function, in ulp, against double arithmetic.
// Arguments: how many floats lie between two samples (1: every float), then NAME=ALLOWED_ULP for each function.
#include <string>

#include "checks.h"

/// |got - exact| in units of the last place of a float near `exact`; 0 where both are NaN or the same infinity.
static double ulps(float got, double exact) {
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : INFINITY;
  if (got == static_cast<float>(exact)) {
    if (exact == 0 || std::isinf(got)) return std::signbit(got) == std::signbit(exact) ? 0 : INFINITY;
  } else if (std::isinf(exact)) {
    return INFINITY;
  }
  const double finite = std::isinf(got) ? std::copysign(0x1p128, got) : got;  // as if the exponent went one further
  const int e = exact == 0 ? -126 : std::ilogb(exact);
  return std::fabs(finite - exact) / std::ldexp(1., (e < -126 ? -126 : e) - 23);
}

struct Worst {
  double ulp = 0;
  float x = 0, y = 0, got = 0;
};

static const float kSpecial[] = {0.f,   1.f,   INFINITY, NAN,     0x1p-149f, 0x1p-126f, 0x1.fffffep-127f, 0x1.fffffep127f,
                                 0.5f,  2.f,   3.f,      88.722f, 88.7228f,  87.33f,    103.972f,         103.98f,
                                 9.01f, 9.02f, 3.83f,    3.84f,   1.5f,      0.75f};
constexpr int kSpecials = sizeof kSpecial / sizeof *kSpecial;

static bool selected(const char* name, int argc, char** argv, double* allowed) {
  const size_t length = std::strlen(name);
  for (int i = 2; i < argc; ++i)
    if (!std::strncmp(argv[i], name, length) && argv[i][length] == '=') return *allowed = std::atof(argv[i] + length + 1), true;
  return false;
}
static void report(const char* name, const Worst& worst, double allowed) {
  std::printf("%s: %.3f ulp at x = %a (%.9g) y = %.9g: %.9g\n", name, worst.ulp, static_cast<double>(worst.x), static_cast<double>(worst.x),
              static_cast<double>(worst.y), static_cast<double>(worst.got));
  check(worst.ulp <= allowed, "%s: %g ulp are more than %g", name, worst.ulp, allowed);
}

template <class Vector, class Exact>
void check_function(const char* name, int argc, char** argv, Vector vector, Exact exact, float limit = INFINITY) {
  double allowed;
  if (!selected(name, argc, argv, &allowed)) return;
  Worst worst;
  vf x;
  int filled = 0;
  const auto add = [&](float value) {
    x[filled] = value;
    if (++filled < kLanes) return;
    filled = 0;
    const vf r = vector(x);
    for (int i = 0; i < kLanes; ++i) {
      const double error = std::fabs(r[i]) > limit ? INFINITY : ulps(r[i], exact(static_cast<double>(x[i])));
      if (error > worst.ulp) worst = {error, x[i], 0, r[i]};
    }
  };
  const uint64_t step = static_cast<uint64_t>(std::atoll(argv[1]));
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step) add(bits_as<float>(static_cast<uint32_t>(bits)));
  for (float s : kSpecial)
    for (int near = -4; near <= 4; ++near)
      for (uint32_t sign : {0u, 0x80000000u}) add(bits_as<float>((bits_as<uint32_t>(s) + static_cast<uint32_t>(near)) ^ sign));
  while (filled) add(1.f);
  report(name, worst, allowed);
}

static void check_pow(int argc, char** argv) {
  double allowed;
  if (!selected("pow", argc, argv, &allowed)) return;
  Worst worst;
  const auto look = [&](vf x, vf y) {
    const vf r = vf_pow(x, y);
    for (int i = 0; i < kLanes; ++i) {
      const double error = ulps(r[i], std::pow(static_cast<double>(x[i]), static_cast<double>(y[i])));
      if (error > worst.ulp) worst = {error, x[i], y[i], r[i]};
    }
  };
  Random random;
  vf x, y;
  for (int64_t left = (int64_t{1} << 32) / std::atoll(argv[1]) / kLanes; left > 0; --left) {
    for (int i = 0; i < kLanes; ++i) {  // bases of all sizes; exponents that use the whole range of results, small integers, any
      const uint32_t kind = random() % 4;
      x[i] = kind == 0 ? bits_as<float>(random() % 0x02000000 + 0x3f000000 - 0x01000000) : bits_as<float>(random() & 0x7fffffff);
      const double reach = 150 / std::fabs(std::log2(static_cast<double>(x[i])));
      y[i] = static_cast<float>(reach * (static_cast<int32_t>(random()) * 0x1p-31));
      if (kind == 2) y[i] = std::floor(y[i]), x[i] = random() % 2 ? -x[i] : x[i];
      if (kind == 3) y[i] = bits_as<float>(random());
    }
    look(x, y);
  }
  for (float a : kSpecial)
    for (float b : kSpecial)
      for (int signs = 0; signs < 4; ++signs) look(vf_set(signs & 1 ? -a : a), vf_set(signs & 2 ? -b : b));
  report("pow", worst, allowed);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  check_function(
      "exp", argc, argv, [](vf x) { return vf_exp(x); }, [](double x) { return std::exp(x); });
  check_function(
      "exp_nonpositive", argc, argv, [](vf x) { return vf_exp_nonpositive(-vf_abs(x)); }, [](double x) { return std::exp(-std::fabs(x)); });
  check_function(
      "log", argc, argv, [](vf x) { return vf_log(x); }, [](double x) { return std::log(x); });
  check_function(
      "tanh", argc, argv, [](vf x) { return vf_tanh(x); }, [](double x) { return std::tanh(x); }, 1.f);
  check_function(
      "erf", argc, argv, [](vf x) { return vf_erf(x); }, [](double x) { return std::erf(x); }, 1.f);
  check_function(
      "sigmoid", argc, argv, [](vf x) { return vf_sigmoid(x); },
      [](double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }, 1.f);
  check_function(
      "rsqrt", argc, argv, [](vf x) { return vf_rsqrt(x); }, [](double x) { return 1 / std::sqrt(x); });
  check_function(
      "sqrt", argc, argv, [](vf x) { return vf_sqrt(x); }, [](double x) { return std::sqrt(x); });
  check_pow(argc, argv);
  return checks_result();
}
