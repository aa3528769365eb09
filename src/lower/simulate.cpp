#include "lower/simulate.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/math.h"
#include "ir/tensor_program.h"
#include "lower/primitives.h"
#include "rtile/rprogram.h"

namespace rgen::lower {

namespace {

constexpr size_t kMostViolations = 8;
constexpr const char* kConfigure = "configure_tiles";  ///< (rows of tile 0, bytes of each, rows of tile 1, …)
constexpr const char* kMeet = "block_sync";
constexpr const char* kStreamPiece = "stream_piece_f32";  ///< (result, buffer, elements, before and after them in the worker's row)

/// One element: who wrote and read it last. Regions are numbered in order of execution, prepacks first.
struct Cell {
  static constexpr int32_t several = -2;
  int32_t writer = -1, reader = -1;  ///< tasks of the regions below, or warps of tasks
  int32_t written_phase = 0, read_phase = 0;
  int16_t written_in = -1, read_in = -1;
  bool unread = false;  ///< since it was written
};

/// An access with its arguments at hand.
struct Access {
  MemoryUse use;
  const Address* at;
  const Int *stride, *lower, *upper, *tile;
  std::vector<const Int*> conditions = {};
};

struct Node;
using Nodes = std::vector<Node>;
struct Loop {
  const For* source;
  Nodes body;
};
struct Branch {
  const If* source;
  Nodes then, otherwise;
};
struct Accesses {
  const Op* source;
  std::vector<Access> all;
};
/// A statement; operations that touch no memory are left out.
struct Node {
  std::variant<Loop, Branch, const LetInt*, const LetPtr*, const Call*, Accesses> what;
};

Nodes prepare(const Body& body);

const Int* integer(const Op& op, size_t first, int position) {
  return position < 0 ? nullptr : &std::get<Int>(op.args.at(first + size_t(position)));
}
Accesses prepare(const Op& op) {
  Accesses a{&op, {}};
  const auto first = std::find_if(op.args.begin(), op.args.end(), [](const Arg& x) { return std::holds_alternative<Address>(x); });
  const size_t base = size_t(first - op.args.begin());
  for (const MemoryUse& use : memory_uses(op)) {
    a.all.push_back({use, &std::get<Address>(op.args.at(base + size_t(use.address))), integer(op, base, use.stride),
                     integer(op, base, use.lower), integer(op, base, use.upper),
                     use.lanes == MemoryUse::Lanes::tile ? &std::get<Int>(op.args.at(base - 1)) : nullptr});
    for (size_t i = base + size_t(use.conditions); use.conditions >= 0 && i < op.args.size(); ++i)
      a.all.back().conditions.push_back(&std::get<Int>(op.args[i]));
  }
  return a;
}
void prepare(const Stmt& s, Nodes& into) {
  std::visit(ir::overloaded{[&](const For& f) {
                              into.push_back({Loop{&f, prepare(*f.body)}});
                            },
                            [&](const If& f) {
                              into.push_back({Branch{&f, prepare(*f.then), prepare(*f.otherwise)}});
                            },
                            [&](const LetInt& l) { into.push_back({&l}); }, [&](const LetPtr& l) { into.push_back({&l}); },
                            [&](const Call& c) { into.push_back({&c}); },
                            [&](const Op& o) {
                              if (Accesses a = prepare(o);
                                  !a.all.empty() || o.primitive == kConfigure || o.primitive == kStreamPiece || o.primitive == kMeet)
                                into.push_back({std::move(a)});
                            },
                            [](const Comment&) {}},
             s.node);
}
Nodes prepare(const Body& body) {
  Nodes nodes;
  for (const Stmt& s : body) prepare(s, nodes);
  return nodes;
}

class Machine {
 public:
  Machine(const LoopProgram& p, int64_t budget) : p_(p), budget_(budget), value_(p.variables.size(), 0), pointer_(p.pointers.size(), 0) {
    for (const Proc& q : p.procs) procs_.push_back(prepare(q.body));
  }

  Simulation run() {
    lay_out();
    for (const Prepack& q : p_.prepacks) {
      if (q.bytes < p_.buffers[size_t(q.buffer_out)].elements * size_of(p_.buffers[size_t(q.buffer_out)].dtype))
        report(&q, "prepack", "the packed buffer is smaller than what is addressed in it");
      region(q.proc, 1);
    }
    for (const Region& r : p_.regions) r.warps > 0 ? shared_region(r) : region(r.proc, r.tasks);
    if (!stopped_) coverage();
    return {std::move(violations_), steps_, !stopped_};
  }

 private:
  const LoopProgram& p_;
  const int64_t budget_;
  std::vector<Nodes> procs_;
  std::vector<int64_t> value_;    ///< of variables
  std::vector<int64_t> pointer_;  ///< offsets
  struct TileShape {
    int64_t rows, row_bytes;
  };
  std::vector<TileShape> tiles_;  ///< of the tile registers, as last configured
  std::vector<int> live_;         ///< variables in scope, for messages
  std::vector<std::vector<Cell>> memory_;
  const Proc* proc_ = nullptr;
  int16_t region_ = -1;
  int32_t task_ = 0;
  /// Of a task that warps share: which of them this is, among all; between which of its meetings the accesses count, and where it is.
  int warps_ = 0;
  int32_t phase_ = 0, now_ = 0;
  int64_t steps_ = 0;
  bool stopped_ = false;
  std::vector<std::string> violations_;
  std::set<std::pair<const void*, std::string>> reported_;

  /// `what` about the statement at `place`; `kind` makes it one message each.
  void report(const void* place, const std::string& kind, const std::string& what) {
    if (!reported_.emplace(place, kind).second) return;
    if (violations_.size() >= kMostViolations) {
      stopped_ = true;
      return;
    }
    std::ostringstream message;
    if (proc_) message << proc_->name << ": ";
    message << what;
    const char* separator = " [";
    for (int v : live_) {
      message << separator << p_.variables[size_t(v)].name << '=' << value_[size_t(v)];
      separator = " ";
    }
    if (!live_.empty()) message << ']';
    violations_.push_back(message.str());
  }

  // ---- memory ----
  int64_t copy_elements(const Buffer& b) const { return b.per_task / size_of(b.dtype); }

  void lay_out() {
    int64_t most_tasks = 1;
    for (const Region& r : p_.regions) most_tasks = std::max(most_tasks, r.tasks * std::max(1, r.warps));
    struct Range {
      int64_t begin, end;
      const Buffer* buffer;
    };
    std::vector<Range> ranges;
    for (const Buffer& b : p_.buffers) {
      memory_.emplace_back(size_t(b.elements + (b.per_task > 0 ? (most_tasks - 1) * copy_elements(b) : 0)));
      if (b.kind != Buffer::Kind::workspace) continue;
      if (b.offset % 64 != 0 || b.per_task % 64 != 0) report(&b, "alignment", "buffer " + b.name + " is not aligned to 64 bytes");
      if (b.per_task > 0 && b.per_task < b.elements * size_of(b.dtype))
        report(&b, "copies", "the tasks' copies of buffer " + b.name + " overlap");
      for (int64_t copy = 0; copy < (b.per_task > 0 ? most_tasks : 1); ++copy)  // others may lie between two of them
        ranges.push_back({b.offset + copy * b.per_task, b.offset + copy * b.per_task + b.elements * size_of(b.dtype), &b});
    }
    std::sort(ranges.begin(), ranges.end(), [](const Range& x, const Range& y) { return x.begin < y.begin; });
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (ranges[i].end > p_.workspace_bytes)
        report(ranges[i].buffer, "end", "buffer " + ranges[i].buffer->name + " ends beyond the workspace");
      if (i > 0 && ranges[i - 1].end > ranges[i].begin)
        report(ranges[i].buffer, "overlap", "buffers " + ranges[i - 1].buffer->name + " and " + ranges[i].buffer->name + " overlap");
    }
  }

  void touch(const Op& op, const Access& a) {
    if (std::any_of(a.conditions.begin(), a.conditions.end(), [&](const Int* i) { return eval(*i) < 0; })) return;
    const int number = p_.pointers[size_t(a.at->pointer)].buffer;
    const Buffer& b = p_.buffers[size_t(number)];
    const int64_t size = size_of(b.dtype), lane_bytes = a.use.bytes > 0 ? a.use.bytes : size;
    const bool regrouped = b.byte_wide && lane_bytes % size == 0;
    if (a.use.dtype && *a.use.dtype != b.dtype && !regrouped)
      return report(&op, "type", op.primitive + " on " + b.name + ", whose elements are " + std::string(to_string(b.dtype)));
    int64_t lo = 0, hi = 1;
    switch (a.use.lanes) {
      case MemoryUse::Lanes::one:
      case MemoryUse::Lanes::tile:
        break;
      case MemoryUse::Lanes::all:
        hi = p_.lanes;
        break;
      case MemoryUse::Lanes::count:
        hi = eval(*a.upper);
        if (hi < 1 || hi > p_.lanes) return report(&op, "lanes", op.primitive + " of " + std::to_string(hi) + " lanes");
        break;
      case MemoryUse::Lanes::bytes:
        hi = eval(*a.upper);
        if (hi < 1 || hi > 4 * p_.lanes) return report(&op, "bytes", op.primitive + " of " + std::to_string(hi) + " bytes");
        break;
      case MemoryUse::Lanes::range:
        lo = std::clamp<int64_t>(eval(*a.lower), 0, p_.lanes), hi = std::clamp<int64_t>(eval(*a.upper), 0, p_.lanes);
        break;
    }
    const int64_t first = pointer_[size_t(a.at->pointer)] + eval(a.at->offset);
    if (a.use.reach > 0 && first + ceil_div(a.use.reach, size) > b.elements)
      return report(&op, "bounds", op.primitive + " reaches past the " + std::to_string(b.elements) + " elements of " + b.name);
    if (a.tile) {
      const int64_t t = eval(*a.tile), stride = eval(*a.stride);
      if (t < 0 || t >= int64_t(tiles_.size())) return report(&op, "tile", op.primitive + " of a tile register that has no shape");
      for (int64_t row = 0; row < tiles_[size_t(t)].rows; ++row)
        cells(op, a.use.write, number, first + floor_div(row * stride, size),
              first + ceil_div(row * stride + tiles_[size_t(t)].row_bytes, size));
    } else if (a.stride) {
      if (lane_bytes != size) return report(&op, "stride", op.primitive + " strides over " + b.name + " in parts of elements");
      const int64_t stride = eval(*a.stride);
      for (int64_t l = lo; l < hi; ++l) cells(op, a.use.write, number, first + l * stride, first + l * stride + 1);
    } else if (lo < hi) {
      cells(op, a.use.write, number, first + floor_div(lo * lane_bytes, size), first + ceil_div(hi * lane_bytes, size));
    }
  }

  void cells(const Op& op, bool write, int number, int64_t begin, int64_t end) {
    const Buffer& b = p_.buffers[size_t(number)];
    const auto where = [&](int64_t at) { return op.primitive + " at " + b.name + "[" + std::to_string(at) + "]"; };
    if (begin < 0 || end > b.elements)
      return report(&op, "bounds",
                    op.primitive + " touches " + b.name + "[" + std::to_string(begin) + "…" + std::to_string(end - 1) + "] of " +
                        std::to_string(b.elements) + " elements");
    if (write && (b.kind == Buffer::Kind::input || (b.kind == Buffer::Kind::packed && region_ >= int16_t(p_.prepacks.size()))))
      return report(&op, "constant", where(begin) + " writes what is not the kernel's to write");
    steps_ += end - begin;
    if (now_ != phase_) return;
    const int64_t copy = b.per_task > 0 ? task_ * copy_elements(b) : 0;
    for (int64_t at = begin; at < end; ++at) {
      Cell& c = memory_[size_t(number)][size_t(copy + at)];
      if (c.written_in == region_ && c.writer != task_ && !before(c.writer, c.written_phase))
        report(&op, "race", where(at) + ": a race with task " + std::to_string(c.writer) + ", which wrote it");
      if (write) {
        if (c.read_in == region_ && c.reader != task_ && !before(c.reader, c.read_phase))
          report(
              &op, "race",
              where(at) + ": a race with " + (c.reader == Cell::several ? "tasks" : "task " + std::to_string(c.reader)) + " that read it");
        if (c.unread && b.kind == Buffer::Kind::output) report(&op, "twice", where(at) + ": computed twice");
        c.written_in = region_, c.writer = task_, c.written_phase = phase_, c.unread = true;
      } else {
        if (c.written_in < 0 && b.kind != Buffer::Kind::input) report(&op, "unwritten", where(at) + ": read before it is written");
        const bool others = c.read_in == region_ && c.reader != task_ && !before(c.reader, c.read_phase);
        c.reader = others ? Cell::several : task_;
        c.read_in = region_, c.read_phase = phase_, c.unread = false;
      }
    }
  }

  /// The access was one of a warp of this task, before they met.
  bool before(int32_t who, int32_t phase) const { return warps_ > 0 && who >= 0 && who / warps_ == task_ / warps_ && phase < phase_; }

  void coverage() {
    proc_ = nullptr;
    for (size_t i = 0; i < p_.buffers.size(); ++i) {
      const Buffer& b = p_.buffers[i];
      if (b.kind != Buffer::Kind::output) continue;
      const auto missing = [](const Cell& c) { return c.written_in < 0; };
      const auto count = std::count_if(memory_[i].begin(), memory_[i].end(), missing);
      if (count == 0) continue;
      const auto first = std::find_if(memory_[i].begin(), memory_[i].end(), missing) - memory_[i].begin();
      report(&b, "coverage",
             std::to_string(count) + " of " + std::to_string(b.elements) + " elements of output " + b.name +
                 " are never written, the first is " + std::to_string(first));
    }
  }

  // ---- control ----
  int64_t eval(const Int& i) const {
    int64_t x = i.constant;
    for (const auto& [v, k] : i.terms) x += k * value_[size_t(v)];
    return x;
  }
  void set(int v, int64_t x, const void* place) {
    const Variable& variable = p_.variables[size_t(v)];
    value_[size_t(v)] = x;
    live_.push_back(v);
    if (x < variable.lo || x > variable.hi)
      report(place, "range", variable.name + " is outside its range of " + std::to_string(variable.lo) + "…" + std::to_string(variable.hi));
  }

  void region(int proc, int64_t tasks) {
    ++region_;
    for (int64_t t = 0; t < tasks && !stopped_; ++t) {
      task_ = int32_t(t);
      tiles_.clear();
      const std::vector<int>& params = p_.procs[size_t(proc)].params;
      call(proc, std::vector<int64_t>(params.size(), t));
    }
  }

  /// Between two meetings the warps of a task run one after the other: each runs once for every phase, in which alone its accesses count
  /// (no memory decides where it goes).
  void shared_region(const Region& r) {
    ++region_;
    warps_ = r.warps;
    for (int64_t t = 0; t < r.tasks && !stopped_; ++t) {
      for (size_t b = 0; b < p_.buffers.size(); ++b)
        if (p_.buffers[b].kind == Buffer::Kind::shared) std::fill(memory_[b].begin(), memory_[b].end(), Cell{});
      int32_t meetings = 0;
      for (phase_ = 0; phase_ <= meetings && !stopped_; ++phase_)
        for (int w = 0; w < r.warps && !stopped_; ++w) {
          task_ = int32_t(t * r.warps + w), now_ = 0;
          call(r.proc, {t, w});
          if (phase_ == 0 && w == 0) meetings = now_;
          if (now_ != meetings && !stopped_) report(&r, "meetings", "the warps of a task meet at different numbers of barriers");
        }
    }
    warps_ = 0, phase_ = 0, now_ = 0;
  }

  void call(int proc, const std::vector<int64_t>& args) {
    const Proc* caller = proc_;
    proc_ = &p_.procs[size_t(proc)];
    const size_t known = live_.size();
    std::vector<int64_t> saved;  // a procedure's parameters may be its caller's variables
    for (size_t i = 0; i < args.size(); ++i) saved.push_back(value_[size_t(proc_->params[i])]);
    for (size_t i = 0; i < args.size(); ++i) set(proc_->params[i], args[i], proc_);
    const Proc* callee = proc_;
    run(procs_[size_t(proc)]);
    for (size_t i = 0; i < args.size(); ++i) value_[size_t(callee->params[i])] = saved[i];
    live_.resize(known);
    proc_ = caller;
  }

  void run(const Nodes& nodes) {
    const size_t known = live_.size();
    for (const Node& n : nodes) {
      if (stopped_ || (stopped_ = ++steps_ > budget_)) break;
      std::visit([&](const auto& x) { step(x); }, n.what);
    }
    live_.resize(known);
  }
  void step(const Loop& l) {
    const int64_t end = eval(l.source->end);
    const size_t known = live_.size();
    for (int64_t v = eval(l.source->begin); v < end && !stopped_; v += l.source->step) {
      set(l.source->var, v, l.source);
      run(l.body);
      live_.resize(known);
    }
  }
  void step(const Branch& b) {
    const auto& all = b.source->all_nonnegative;
    run(std::all_of(all.begin(), all.end(), [&](const Int& i) { return eval(i) >= 0; }) ? b.then : b.otherwise);
  }
  void step(const LetInt* l) {
    const int64_t a = eval(l->a), b = eval(l->b);
    const bool division = l->op == LetInt::Op::floor_div || l->op == LetInt::Op::floor_mod;
    if (division && b <= 0) return report(l, "division", "a division by " + std::to_string(b));
    int64_t x = a;
    switch (l->op) {
      case LetInt::Op::value:
      case LetInt::Op::uniform:
        break;
      case LetInt::Op::min:
        x = std::min(a, b);
        break;
      case LetInt::Op::max:
        x = std::max(a, b);
        break;
      case LetInt::Op::floor_div:
        x = floor_div(a, b);
        break;
      case LetInt::Op::floor_mod:
        x = floor_mod(a, b);
        break;
      case LetInt::Op::exclusive_or:
        x = a ^ b;
        break;
    }
    set(l->var, x, l);
  }
  void step(const LetPtr* l) {
    pointer_[size_t(l->pointer)] = eval(l->offset);
    const int buffer = p_.pointers[size_t(l->pointer)].buffer;
    if (p_.buffers[size_t(buffer)].kind == Buffer::Kind::local) {  // a new one in every call
      auto& cells = memory_[size_t(buffer)];
      std::fill(cells.begin(), cells.end(), Cell{});
    }
  }
  void step(const Call* c) {
    std::vector<int64_t> args;
    for (const Int& i : c->args) args.push_back(eval(i));
    call(c->proc, args);
  }
  void step(const Accesses& a) {
    if (a.source->primitive == kConfigure) {
      tiles_.clear();
      const auto number = [&](size_t i) { return eval(std::get<Int>(a.source->args[i])); };
      for (size_t i = 0; i < a.source->args.size(); i += 2) tiles_.push_back({number(i), number(i + 1)});
    }
    if (a.source->primitive == kMeet && warps_ > 0) ++now_;
    if (a.source->primitive == kStreamPiece) stream_piece(*a.source);
    for (const Access& x : a.all) touch(*a.source, x);
  }

  /// The lines that end in a piece, and what begins one moves in front of the piece. Arguments begin lines.
  void stream_piece(const Op& op) {
    constexpr int64_t kLine = rtile::WriteCombining::kLine;
    const Address &to = std::get<Address>(op.args[0]), &from = std::get<Address>(op.args[1]);
    const auto number = [&](size_t i) { return eval(std::get<Int>(op.args[i])); };
    const auto at = [&](const Address& a) { return pointer_[size_t(a.pointer)] + eval(a.offset); };
    const auto buffer = [&](const Address& a) { return p_.pointers[size_t(a.pointer)].buffer; };
    const int64_t n = number(2), result = at(to), piece = at(from);
    const int64_t begin = -std::min(number(3), floor_mod(result, kLine));
    const int64_t end = number(4) > 0 ? std::max(begin, n - floor_mod(result + n, kLine)) : n;
    cells(op, false, buffer(from), piece + begin, piece + n);
    cells(op, true, buffer(to), result + begin, result + end);
    if (number(4) > 0) cells(op, true, buffer(from), piece + end - n, piece);
  }
};

}  // namespace

Simulation simulate(const LoopProgram& program, int64_t budget) { return Machine(program, budget).run(); }

void check(const LoopProgram& program, int64_t budget) {
  const Simulation s = simulate(program, budget);
  if (s.violations.empty()) return;
  std::string all = "the loop program is wrong:";
  for (const std::string& v : s.violations) all += "\n  " + v;
  throw Error(ErrorCode::internal, all);
}

}  // namespace rgen::lower
