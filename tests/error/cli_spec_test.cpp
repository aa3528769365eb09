// Bad specs, end to end: exit status 3, and a message that names the place, the cause and what would work.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "error/cli.h"

using namespace rgen::test;

namespace {

/// The second form: C from A and B by these statements.
std::string expression(const std::string& statements, const std::string& dims = R"("M": 16, "N": 32, "K": 8)") {
  std::string quoted;
  std::istringstream lines(statements);
  for (std::string line; std::getline(lines, line, ';');) quoted += (quoted.empty() ? "\"" : ", \"") + line + "\"";
  return R"({"name": "e", "dims": {)" + dims +
         R"(}, "inputs": {"A": {"shape": ["M","K"], "dtype": "f32"}, "B": {"shape": ["K","N"], "dtype": "f32"}}, "compute": [)" + quoted +
         R"(], "outputs": ["C"]})";
}
const std::string product = "C[m:M, n:N] = sum(k:K | A[m,k] * B[k,n])";

struct Case {
  const char* what;
  std::string spec;
  std::vector<std::string> said;  ///< parts of the message
};

}  // namespace

TEST_CASE("invalid specs exit with 3 and say why") {
  const Cli rgen;
  const std::vector<Case> cases = {
      {"unparsable JSON", R"({"name": "x", )", {}},
      {"not a spec at all", "42", {}},
      {"an unknown key", R"({"name": "x", "op": "matmul", "dtyp": "f32", "params": {"m": 4, "n": 4, "k": 4}})", {"dtyp", "'dtype'"}},
      {"an unknown parameter",
       R"({"name": "x", "op": "conv2d", "dtype": "f32", "params": {"n":1,"h":8,"w":8,"ci":4,"co":4,"r":3,"s":3,"strides":1}})",
       {"strides", "'stride'"}},
      {"an unknown op", R"({"name": "x", "op": "matmull", "dtype": "f32", "params": {}})", {"matmull", "'matmul'"}},
      {"an unknown dtype", R"({"name": "x", "op": "matmul", "dtype": "f23", "params": {"m": 4, "n": 4, "k": 4}})", {"f23"}},
      {"an unknown function", expression("C[m:M, n:N] = sun(k:K | A[m,k] * B[k,n])"), {"sun"}},
      {"an unknown tensor", expression("C[m:M, n:N] = sum(k:K | A[m,k] * D[k,n])"), {"'D'"}},
      {"an unknown axis", expression("C[m:M, n:N] = sum(k:K | A[m,j] * B[k,n])"), {"'j'"}},
      {"a rank mismatch", expression("C[m:M, n:N] = sum(k:K | A[m] * B[k,n])"), {"A"}},
      {"an extent of 0", expression(product, R"("M": 0, "N": 32, "K": 8)"), {"extent is 0"}},
      {"a negative extent", expression(product, R"("M": -4, "N": 32, "K": 8)"), {"/dims/M"}},
      {"an extent over 2^31", expression(product, R"("M": 2147483649, "N": 32, "K": 8)"), {"/dims/M"}},
      {"an index outside its tensor", expression("C[m:M, n:N] = sum(k:K | A[m,k+1] * B[k,n])"), {"A", "out_of_bounds"}},
      {"a reduction axis on the left", expression("C[m:M, k:K] = sum(k:K | A[m,k])"), {"'k'"}},
      {"a cycle", expression("C[m:M, n:N] = D[m,n] + 1;D[m:M, n:N] = C[m,n] * 2"), {"D"}},
      {"a syntax error", expression("C[m:M, n:N] = sum(k:K | A[m,k] ** B[k,n])"), {"/compute/0"}},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.what));
    const ProcessResult r = rgen.predict(c.spec);
    CAPTURE(r.err);
    CHECK(r.status == 3);
    CHECK(r.out.empty());
    CHECK(r.err.rfind("rgen: error: ", 0) == 0);
    CHECK(contains(r.err, "spec.json"));
    for (const std::string& part : c.said) {
      CAPTURE(part);
      CHECK(contains(r.err, part));
    }
  }
}

TEST_CASE("100 MB of nested brackets end with an error in seconds, not with a crash") {
  const Cli rgen;
  ProcessOptions options;
  options.input.assign(100'000'000, '[');
  const ProcessResult r = rgen({"predict", "--hw", "zen5", "-"}, options);
  CHECK(r.status == 3);
  CHECK(contains(r.err, "standard input"));
  CHECK(r.err.size() < 1000);
}

TEST_CASE("an expression nested too deep is an error") {
  const Cli rgen;
  const ProcessResult r = rgen.predict(expression("C[m:M, n:N] = " + std::string(100000, '(') + "1"));
  CHECK(r.status == 3);
  CHECK(r.signal == 0);
}

TEST_CASE("the short form names its faults") {
  const Cli rgen;
  const std::string mm = "C[m,n] = sum(k | A[m,k]*B[k,n])";
  const auto predict = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"predict", "--hw", "zen5"});
    return rgen(more);
  };
  CHECK(predict({mm, "-D", "m=8,n=16,k=4"}).status == 0);
  CHECK(predict({mm, "-D", "m=8", "-D", "n=16", "-D", "k=4"}).status == 0);
  const ProcessResult missing = predict({mm, "-D", "m=8,n=16"});
  CHECK(missing.status == 3);
  CHECK(contains(missing.err, "k"));
  CHECK(predict({mm, "-D", "m=8,n=16,k=0"}).status == 3);
  CHECK(predict({mm, "-D", "m=8,n=16,k"}).status == 2);
  CHECK(predict({mm, "-D", "m=8,n=16,k=4x"}).status == 2);
  CHECK(predict({mm, "-D", "m=8,m=9,n=16,k=4"}).status == 2);
  CHECK(predict({"C[m,n] = sum(k | A[m,k]*", "-D", "m=8,n=16,k=4"}).status == 3);
}

TEST_CASE("files that are not there, names that are not in them") {
  const Cli rgen;
  const ProcessResult missing = rgen({"predict", "--hw", "zen5", rgen.path("none.json")});
  CHECK(missing.status == 3);
  CHECK(contains(missing.err, "no such file"));
  const std::string file = rgen.file("two.json", R"({"workloads": [)" + matmul_spec + "]}");
  const ProcessResult name = rgen({"predict", "--hw", "zen5", file + "#nm"});
  CHECK(name.status == 3);
  CHECK(contains(name.err, "did you mean 'mm'"));
  CHECK(rgen({"predict", "--hw", "zen5", file + "#mm"}).status == 0);
  CHECK(rgen({"predict", "--hw", "zen5", rgen.path("")}).status == 3);
}

TEST_CASE("the rest goes on after a failure, and the status is the first failure's") {
  const Cli rgen;
  const std::string bad = rgen.file("bad.json", "{"), good = rgen.file("good.json", matmul_spec);
  const ProcessResult r = rgen({"predict", "--hw", "zen5", "--json", bad, good});
  CHECK(r.status == 3);
  const auto document = nlohmann::json::parse(r.out);
  REQUIRE(document["results"].size() == 2);
  CHECK(document["results"][0]["error"]["code"] == "invalid_spec");
  CHECK(contains(document["results"][0]["error"]["message"].get<std::string>(), "bad.json"));
  CHECK_FALSE(document["results"][1].contains("error"));
  CHECK(document["results"][1]["name"] == "mm");
}
