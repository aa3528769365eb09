#include <algorithm>
#include <functional>

#include "base/error.h"
#include "ir/ir.h"
#include "ir/resolve.h"

namespace rgen::ir {

using syntax::Node;
using syntax::Statement;

namespace {

[[noreturn]] void invalid(const std::string& message, const std::string& place) { throw Error(ErrorCode::invalid_spec, message, place); }

void check_name(const std::string& name, const std::string& what, const std::string& place) {
  if (!syntax::is_name(name) || name == "inf" || name.size() > 128)
    invalid(what + " name '" + name.substr(0, 140) + "' is not a letter followed by up to 127 letters, digits or '_'", place);
}

Size size_of_text(const SizeText& text, const Sizes& sizes) {
  if (const auto* number = std::get_if<int64_t>(&text.value)) return *number;
  const auto node = syntax::parse_expression(std::get<std::string>(text.value), text.place);
  return resolve_size(*node, sizes, text.place);
}

Sizes add_dims(const Draft& draft, TensorProgram& program) {
  Sizes sizes;
  for (const DraftDim& d : draft.dims) {
    check_name(d.name, "dimension", d.place);
    Size size;
    if (const auto* range = std::get_if<Dim>(&d.value)) {
      if (range->min < 1 || range->max < range->min || range->max > max_extent || range->multiple_of < 1 || range->multiple_of > range->max)
        invalid("a range needs 1 <= min <= max <= 2147483648 and 1 <= multiple_of <= max", d.place);
      if (range->max / range->multiple_of * range->multiple_of < range->min) invalid("the range holds no multiple of multiple_of", d.place);
      size = Size::dim(int(program.dims.size()));
      program.dims.push_back(*range);
      program.dims.back().name = d.name;
    } else {
      size = size_of_text(std::get<SizeText>(d.value), sizes);
      if (size.is_const() && (size.value() < 0 || size.value() > max_extent))
        invalid("dimension '" + d.name + "' is " + std::to_string(size.value()) + "; extents are 1 to 2147483648", d.place);
    }
    if (!sizes.emplace(d.name, size).second) invalid("dimension '" + d.name + "' is given twice", d.place);
  }
  return sizes;
}

void add_inputs(const Draft& draft, const Sizes& sizes, TensorProgram& program, Resolver& resolver) {
  std::set<std::string> names;
  for (const DraftInput& in : draft.inputs) {
    check_name(in.name, "tensor", in.place);
    if (!names.insert(in.name).second) invalid("input '" + in.name + "' is given twice", in.place);
    Tensor t;
    t.name = in.name;
    t.dtype = in.dtype;
    t.kind = TensorKind::input;
    t.constant = in.constant;
    for (const SizeText& s : in.shape) t.shape.push_back(check_extent(size_of_text(s, sizes), "this extent", s.place));
    for (const SizeText& s : in.strides) t.strides.push_back(size_of_text(s, sizes));
    if (in.strides.empty()) t.strides = dense_strides(t.shape, in.place);
    if (t.strides.size() != t.shape.size())
      invalid("input '" + in.name + "' has " + std::to_string(t.shape.size()) + " dimensions but " + std::to_string(t.strides.size()) +
                  " strides",
              in.place + "/strides");
    program.inputs.push_back(resolver.add_tensor(std::move(t), in.place));
    if (in.out_of_bounds) resolver.set_out_of_bounds(program.inputs.back(), *in.out_of_bounds);
  }
}

void for_each_node(const Node& node, const std::function<void(const Node&)>& f) {
  f(node);
  for (const auto& a : node.args) for_each_node(*a, f);
}

/// The statements in an order in which each reads only what is written before it; otherwise as given.
std::vector<const Statement*> in_order(const std::vector<Statement>& statements) {
  std::map<std::string, size_t> writer;
  for (size_t i = 0; i < statements.size(); ++i)
    if (const auto [it, fresh] = writer.emplace(statements[i].name, i); !fresh)
      invalid("tensor '" + statements[i].name + "' is written twice; first by " + statements[it->second].place, statements[i].place);
  std::vector<std::vector<size_t>> reads(statements.size());
  for (size_t i = 0; i < statements.size(); ++i)
    for_each_node(*statements[i].value, [&](const Node& n) {
      if (const auto it = writer.find(n.text); n.kind == Node::Kind::access && it != writer.end()) reads[i].push_back(it->second);
    });
  std::vector<const Statement*> order;
  std::vector<char> state(statements.size(), 'n');  // n: new, o: open, d: done
  struct Visit {
    size_t statement, next = 0;
  };
  for (size_t root = 0; root < statements.size(); ++root) {
    if (state[root] != 'n') continue;
    std::vector<Visit> open{{root}};
    state[root] = 'o';
    while (!open.empty()) {
      Visit& v = open.back();
      if (v.next == reads[v.statement].size()) {
        state[v.statement] = 'd';
        order.push_back(&statements[v.statement]);
        open.pop_back();
        continue;
      }
      const size_t to = reads[v.statement][v.next++];
      if (state[to] == 'o') {
        std::string cycle;
        auto from = std::find_if(open.begin(), open.end(), [&](const Visit& x) { return x.statement == to; });
        for (; from != open.end(); ++from) cycle += statements[from->statement].name + " → ";
        invalid("the statements form a cycle: " + cycle + statements[to].name, statements[to].place);
      }
      if (state[to] == 'n') {
        state[to] = 'o';
        open.push_back({to});
      }
    }
  }
  return order;
}

/// The inputs of the short form, in order of appearance: every index is an axis, whose extent is the dimension's.
std::vector<DraftInput> inferred_inputs(const std::vector<Statement>& statements, const Draft& draft) {
  std::set<std::string> written;
  for (const Statement& s : statements) written.insert(s.name);
  std::vector<DraftInput> inputs;
  for (const Statement& s : statements) {
    for_each_node(*s.value, [&](const Node& n) {
      if (n.kind != Node::Kind::access || written.count(n.text)) return;
      if (std::any_of(inputs.begin(), inputs.end(), [&](const DraftInput& i) { return i.name == n.text; })) return;
      DraftInput in;
      in.name = n.text;
      in.place = draft.place;
      for (const auto& a : n.args) {
        if (a->kind != Node::Kind::name)
          syntax::fail(s.place, a->column,
                       "the shape of '" + n.text + "' does not follow from this index; use the JSON form, which states shapes");
        in.shape.push_back({a->text, s.place});
      }
      inputs.push_back(std::move(in));
    });
  }
  return inputs;
}

std::vector<DraftOutput> chosen_outputs(const Draft& draft, const std::vector<Statement>& statements) {
  std::vector<DraftOutput> outputs = draft.outputs;
  std::vector<std::string> written;
  for (const Statement& s : statements) written.push_back(s.name);
  if (outputs.empty()) {
    std::set<std::string> read;
    for (const Statement& s : statements)
      for_each_node(*s.value, [&](const Node& n) {
        if (n.kind == Node::Kind::access) read.insert(n.text);
      });
    for (const Statement& s : statements)
      if (!read.count(s.name)) outputs.push_back({s.name, {}, s.place});
  }
  std::set<std::string> names;
  for (const DraftOutput& o : outputs) {
    if (std::find(written.begin(), written.end(), o.name) == written.end())
      invalid("output '" + o.name + "' is never written" + did_you_mean(o.name, written), o.place);
    if (!names.insert(o.name).second) invalid("output '" + o.name + "' is listed twice", o.place);
  }
  return outputs;
}

}  // namespace

TensorProgram assemble(const Draft& draft) {
  TensorProgram program;
  program.name = draft.name;
  program.math = draft.math;
  SourceMap source;
  source.place = draft.place;
  const Sizes sizes = add_dims(draft, program);

  std::vector<Statement> statements;
  for (const DraftStatement& s : draft.statements) {
    statements.push_back(syntax::parse_statement(s.text, s.place));
    check_name(statements.back().name, "tensor", s.place);
  }
  if (statements.empty()) invalid("there is no statement to compute", draft.place);

  Draft complete = draft;
  if (draft.infer_inputs) complete.inputs = inferred_inputs(statements, draft);
  std::set<std::string> reserved;
  for (const Statement& s : statements) {
    reserved.insert(s.name);
    for (const DraftInput& in : complete.inputs)
      if (in.name == s.name) invalid("'" + s.name + "' is an input; a statement cannot write it", s.place);
  }
  Resolver resolver(program, sizes, source, reserved);
  add_inputs(complete, sizes, program, resolver);
  const std::vector<DraftOutput> outputs = chosen_outputs(draft, statements);
  for (const Statement* s : in_order(statements)) {
    const auto out = std::find_if(outputs.begin(), outputs.end(), [&](const DraftOutput& o) { return o.name == s->name; });
    resolver.add_statement(*s, out == outputs.end() ? std::nullopt : out->dtype);
  }
  for (const DraftOutput& o : outputs) {
    const auto t = std::find_if(program.tensors.begin(), program.tensors.end(), [&](const Tensor& x) { return x.name == o.name; });
    t->kind = TensorKind::output;
    program.outputs.push_back(int(t - program.tensors.begin()));
  }
  verify(program, source);
  return program;
}

}  // namespace rgen::ir
