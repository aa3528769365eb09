#!/usr/bin/env python3
"""Plants bugs in a copy of the tree, one at a time, and sees whether rgen-fuzz finds them.

  tools/fuzz/plant_bugs.py [--scratch DIR] [--count N] [--jobs N] [--only NAME ...]

Each bug is a piece of text and what stands in its place. The copy is built once without bugs, and must then pass; after that only the
file with the bug is compiled and rgen-fuzz linked. Exit status: 0 all caught, 1 some not, 2 a bug's text is no longer in its file or
does not compile.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# name, file, text, replacement
BUGS = [
    ("tail one lane short", "src/lower/tile.cpp",
     "if (j + 1 == vectors) p.lanes = v_.tail;", "if (j + 1 == vectors) p.lanes = v_.tail > 1 ? v_.tail - 1 : 1;"),
    ("tail one lane long", "src/lower/tile.cpp",
     "if (j + 1 == vectors) p.lanes = v_.tail;", "if (j + 1 == vectors) p.lanes = v_.tail < W_ ? v_.tail + 1 : W_;"),
    ("sums start from one", "src/lower/tile_reduce.cpp",
     "{identity(s.reduce, integer)}}});", "{identity(s.reduce, integer) + 1}}});"),
    ("strides of intermediates swapped", "src/rtile/nest.cpp",
     "s[d - 1] = s[d] * shape[d];", "s[d - 1] = s[d] * shape[d - 1];"),
    ("a task loses its last block", "src/lower/nest.cpp",
     "part * blocks + Int(blocks), Int(parts)", "part * blocks + Int(blocks - 1), Int(parts)"),
    ("ragged blocks start late", "src/lower/nest.cpp",
     "at = at - Int::var(over, t.unit);", "at = at - Int::var(over, t.unit) + Int::var(over);"),
    ("ragged blocks packed from elsewhere", "src/lower/pack.cpp",
     "at = at - Int::var(over, t.unit);", "at = at - Int::var(over, t.unit) + Int::var(over);"),
    ("interior reaches one too far", "src/lower/nest.cpp",
     "value() - 1) - hi);", "value()) - hi);"),
    ("interior starts one too early", "src/lower/nest.cpp",
     "all.push_back(lo);", "all.push_back(lo + Int(1));"),
    ("guarded loads read 0 outside", "src/lower/tile_loads.cpp",
     "const double fill = *a.out_of_bounds;", "const double fill = 0;"),
    ("guarded loads forget what they read outside", "src/lower/tile_loads.cpp",
     "<< '|' << *a.out_of_bounds;", ";"),
    ("guards count lanes from the wrong end", "src/lower/tile_loads.cpp",
     "Int(extent + c - 1) - at : at + Int(-c);", "Int(extent + c) - at : at + Int(-c);"),
    ("padded copies read 0 outside", "src/lower/pack.cpp",
     "const double fill = o.access.out_of_bounds.value_or(0);", "const double fill = 0;"),
    ("padded copies one element off", "src/lower/pack.cpp",
     "l.constant -= strides[d] * lo[d];", "l.constant -= strides[d] * lo[d] - (lo[d] < 0 ? 1 : 0);"),
    ("packing leaves its padding as it was", "src/lower/pack.cpp",
     "If{inside, copy, pad}", "If{inside, copy, std::make_shared<Body>()}"),
    ("correction of signed bytes has the wrong sign", "src/lower/pack.cpp",
     '"sub", acc, true, {Reg{zero}, Reg{acc}}', '"sub", acc, true, {Reg{acc}, Reg{zero}}'),
    ("first and last chunk swapped", "src/lower/nest.cpp",
     "w.first = is_first, w.last = is_last;", "w.first = is_last, w.last = is_first;"),
    ("partial sums forgotten", "src/lower/tile_reduce.cpp",
     "if (!v_.first && c_.plan.form != AtomForm::matrix) {", "if (false) {"),
    ("chunks of a packing start at the wrong place", "src/lower/pack.cpp",
     "size / step - m.value[size_t(a)]", "size / step"),
    ("no epilogue in the last vector", "src/lower/tile.cpp",
     "  if (v_.last)\n    for (const Point& p : points_) {", "  if (v_.last && v_.tail == W_)\n    for (const Point& p : points_) {"),
    ("transposed stores lose a row", "src/lower/tile.cpp",
     "for (int l = 0; l < p.lanes; ++l) {", "for (int l = 0; l < p.lanes - (p.lanes > 1); ++l) {"),
    ("transposed loads count too few lanes", "src/lower/tile_loads.cpp",
     "if (l >= lanes) {", "if (l + 1 >= lanes && lanes > 1) {"),
    ("equal loads: the offset does not count", "src/lower/tile_values.cpp",
     "key << '+' << m->offset.constant;", "key << '+' << m->offset.constant / 2;"),
    ("equal values: the lanes do not count", "src/lower/tile_values.cpp",
     "key << '+' << i->constant;", ""),
    ("a copy of the sums is left out", "src/lower/tile_reduce.cpp",
     "u + half < copies_; u += 2 * half", "u + half + 1 < copies_; u += 2 * half"),
    ("lanes beyond a row take part in its sum", "src/lower/tile_reduce.cpp",
     "const bool masked = vec_reduced_ && active_ != 0;", "const bool masked = false;"),
    ("steps left after the unrolled ones are dropped", "src/lower/tile_reduce.cpp",
     "    if (main < whole) {", "    if (main + unit < whole) {"),
    ("a shared tile's origin is not added", "src/lower/tile_loads.cpp",
     "if (!tile_local && c_.origin[size_t(a)] >= 0)", "if (tile_local && c_.origin[size_t(a)] >= 0)"),
    ("tasks share one tile buffer", "src/lower/lower.cpp",
     "tasks > 1 ? bytes : 0, false});", "0, false});"),
    ("negative quotients round towards zero", "src/emit/printer.cpp",
     "if (nonnegative(l.a)) {", "if (true) {"),
    ("matrix tiles keep their sums", "src/lower/tile_matrix.cpp",
     'effect("tile_zero", {Int(t)});', 'if (t != 1) effect("tile_zero", {Int(t)});'),
]


def run(command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)


class Tree:
    """A copy of what rgen-fuzz is built from."""

    def __init__(self, scratch, jobs):
        self.path, self.build, self.jobs = scratch / "tree", scratch / "build", jobs
        if self.path.exists():
            shutil.rmtree(self.path)
        for part in ("src", "include", "tools", "cmake", "hwprofiles", "ops", "tests/support"):
            # times of now: a build folder that is there already may hold objects of the last bug
            shutil.copytree(ROOT / part, self.path / part, copy_function=shutil.copy)
        for part in ("CMakeLists.txt", "tests/CMakeLists.txt", "LICENSE", "README.md"):
            if (ROOT / part).exists():
                shutil.copy(ROOT / part, self.path / part)
        configured = run(["cmake", "-S", self.path, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                          "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DRGEN_TESTS=OFF", "-DRGEN_BENCH=OFF", "-DRGEN_EXAMPLES=OFF"])
        if configured.returncode != 0:
            sys.exit(configured.stdout + configured.stderr)

    def compile(self):
        return run(["ninja", "-C", self.build, f"-j{self.jobs}", "rgen_fuzz"])

    def fuzz(self, count):
        """(exit status, number of programs until the first failure, what it says)"""
        r = run([self.build / "bin/rgen-fuzz", "--count", count, "--jobs", self.jobs, "--no-shrink", "--no-histogram"], cwd=self.build)
        found = re.search(r"^seed (\d+): (.*)$", r.stderr, re.M)
        return r.returncode, int(found[1]) if found else count, found[2][:90] if found else r.stderr[-200:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=pathlib.Path, default=ROOT / "build" / "planted")
    parser.add_argument("--count", type=int, default=600, help="programs tried a bug (600)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="*", help="bugs whose names contain one of these")
    options = parser.parse_args()
    bugs = [b for b in BUGS if not options.only or any(o in b[0] for o in options.only)]
    stale = [name for name, file, old, _ in bugs if (ROOT / file).read_text().count(old) != 1]
    for name in stale:
        print(f"stale: {name}: its text is not once in its file")
    if stale:
        return 2

    tree = Tree(options.scratch, options.jobs)
    built = tree.compile()
    if built.returncode != 0:
        sys.exit(built.stdout[-3000:])
    status, _, says = tree.fuzz(options.count)
    if status != 0:
        sys.exit(f"without any bug: {says}")
    worst = 0
    for name, file, old, new in bugs:
        path = tree.path / file
        text = path.read_text()
        path.write_text(text.replace(old, new))
        start = time.monotonic()
        built = tree.compile()
        if built.returncode != 0:
            print(f"{name:48} does not compile\n{built.stdout[-1500:]}", flush=True)
            worst = 2
        else:
            status, programs, says = tree.fuzz(options.count)
            caught = status == 6
            worst = max(worst, 0 if caught else 1)
            print(f"{name:48} {'caught at ' + str(programs) if caught else 'NOT CAUGHT':14} {time.monotonic() - start:4.0f} s  {says}", flush=True)
        path.write_text(text)
    return worst


if __name__ == "__main__":
    sys.exit(main())
