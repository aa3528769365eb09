#include "fuzz/execute.h"

#include <cstring>

#include "fuzz/guarded.h"

namespace rgen::fuzz {

namespace {

using Edge = GuardedBuffer::Edge;

/// One thread that does the tasks last to first.
void run_reversed(void*, int64_t n, void (*task)(void* arg, int64_t i), void* arg) {
  for (int64_t i = n; i-- > 0;) task(arg, i);
}
void run_forward(void*, int64_t n, void (*task)(void* arg, int64_t i), void* arg) {
  for (int64_t i = 0; i < n; ++i) task(arg, i);
}

struct Run {
  std::string name;
  const rgen_threads* threads;
  Edge edge;
  uint8_t garbage;
};

class Execution {
 public:
  Execution(const Case& c, const run::Module& module, const Run& run) : case_(c), module_(module), run_(run) {}

  /// Throws std::string with what is wrong.
  std::vector<run::Buffer> outputs() {
    std::vector<void*> args;
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      const ir::Tensor& t = case_.program[case_.program.inputs[i]];
      GuardedBuffer& b = memory(case_.inputs[i].size(), size_t(size_of(t.dtype)));
      if (b.size() > 0) std::memcpy(b.data(), case_.inputs[i].data(), b.size());
      b.make_read_only();
      args.push_back(b.data());
    }
    for (const emit::PrepackEntry& p : case_.code.prepack) {
      GuardedBuffer& b = memory(size_t(p.bytes), 64);
      const auto pack = reinterpret_cast<run::PrepackFn>(module_.symbol(p.symbol));
      if (const int code = pack(args[size_t(p.input)], b.data())) throw "the prepack returned " + std::to_string(code);
      b.make_read_only();
      args[size_t(p.input)] = b.data();
    }
    const size_t first_output = buffers_.size();
    for (int o : case_.program.outputs) {
      const ir::Tensor& t = case_.program[o];
      size_t bytes = size_t(size_of(t.dtype));
      for (const ir::Size& s : t.shape) bytes *= size_t(s.value());
      args.push_back(memory(bytes, size_t(size_of(t.dtype))).data());
    }
    void* workspace = case_.code.workspace_bytes > 0 ? memory(size_t(case_.code.workspace_bytes), 64).data() : nullptr;
    const auto entry = reinterpret_cast<run::EntryFn>(module_.symbol(case_.code.symbol));
    if (const int code = entry(args.data(), nullptr, workspace, run_.threads)) throw "the kernel returned " + std::to_string(code);
    for (const GuardedBuffer& b : buffers_)
      if (!b.intact()) throw run_.name + ": bytes beside a buffer of " + std::to_string(b.size()) + " bytes changed";
    std::vector<run::Buffer> results;
    for (size_t i = 0; i < case_.program.outputs.size(); ++i) {
      const GuardedBuffer& b = buffers_[first_output + i];
      results.emplace_back(b.size());
      std::memcpy(results.back().data(), b.data(), b.size());
    }
    return results;
  }

 private:
  const Case& case_;
  const run::Module& module_;
  const Run& run_;
  std::vector<GuardedBuffer> buffers_;

  GuardedBuffer& memory(size_t bytes, size_t alignment) {
    buffers_.emplace_back(bytes, alignment, run_.edge);
    buffers_.back().fill(run_.garbage);
    return buffers_.back();
  }
};

bool same(const std::vector<run::Buffer>& a, const std::vector<run::Buffer>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(a[i].data(), b[i].data(), a[i].size()) != 0) return false;
  return true;
}

}  // namespace

std::string execute(const Case& c, const run::Module& module, uint64_t seed) {
  static const run::ThreadPool pool(3);
  static constexpr rgen_threads forward{sizeof(rgen_threads), 1, nullptr, run_forward},
      reversed{sizeof(rgen_threads), 5, nullptr, run_reversed};
  const Run runs[] = {{"serial", seed % 2 ? nullptr : &forward, Edge::after, 0xff},  // 0xff…: NaN in every float
                      {"three threads", pool.handle(), Edge::before, 0x7b},
                      {"tasks in reverse", &reversed, Edge::after, 0x00}};
  try {
    std::vector<run::Buffer> first;
    for (const Run& r : runs) {
      std::vector<run::Buffer> outputs = Execution(c, module, r).outputs();
      if (first.empty()) {
        first = std::move(outputs);
        if (const run::Comparison x = run::compare(c.program, c.reference, first); !x.ok) return r.name + ": " + x.worst;
      } else if (!same(first, outputs)) {
        const run::Comparison x = run::compare(c.program, c.reference, outputs);
        return r.name + " gives other bits than serially" + (x.ok ? "" : ": " + x.worst);
      }
    }
  } catch (const std::string& wrong) { return wrong; }
  return {};
}

}  // namespace rgen::fuzz
