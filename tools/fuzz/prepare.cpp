#include "fuzz/prepare.h"

#include "base/error.h"
#include "fuzz/features.h"
#include "fuzz/profiles.h"
#include "lower/lower.h"
#include "lower/simulate.h"
#include "rtile/construct.h"

namespace rgen::fuzz {

constexpr int kPlans = 20;

Case prepare(const Task& task) {
  Case c;
  c.program = ir::parse_program(spec_of(task), "fuzz_" + std::to_string(task.seed));
  const std::string printed = ir::print_json(c.program);
  const ir::TensorProgram again = ir::parse_program(printed, "printed");
  if (!ir::equal(again, c.program) || ir::print_json(again) != printed)
    throw Error(ErrorCode::internal, "the printed program reads back as another one");
  const hw::Profile p = profile(task.setting.profile);
  const std::vector<rtile::Candidate> plans = rtile::construct(c.program, p, {task.setting.threads, kPlans});
  const rtile::Candidate& plan = plans.at(size_t(task.setting.rank) % plans.size());
  // races between tasks are rare in a run of microseconds, but not in this proof; it stops where large programs would take long
  lower::check(lower::lower(c.program, *plan.program), 1 << 18);
  c.code = emit::emit_cpp(c.program, plan, p, {.emulate_amx = !hw::missing_isa(p).empty()});
  c.inputs = run::make_inputs(c.program, task.seed);
  c.reference = ir::evaluate_reference(c.program, [&] {
    std::vector<const void*> data;
    for (const run::Buffer& b : c.inputs) data.push_back(b.data());
    return data;
  }());
  c.features = features(c.program, plan, c.code, task.setting);
  return c;
}

}  // namespace rgen::fuzz
