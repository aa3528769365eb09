#!/usr/bin/env python3
"""Kernels of a file of specs for some GPUs, without one: construction and compile times, resources, predicted times.

bench/gpu/table.py --hw a100 --hw h100 tests/data/workloads.json --markdown tables.md --json tables.json

Cubins are made by NVRTC (docs/cli.md). The rate is operations (two for each point of a reduction), or bytes of the arguments where there are fewer
than four operations a byte; the limit is the profile's roofline for the same work (docs/model.md)."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import document

ELEMENT_BYTES = {"f32": 4, "s32": 4, "f16": 2, "bf16": 2, "s8": 1, "u8": 1}
COLUMNS = (  # title, key, format
    ("workload", "name", "{}"),
    ("family", "family", "{}"),
    ("construct ms", "construct_ms", "{:.1f}"),
    ("emit + compile ms", "compile_ms", "{:.0f}"),
    ("kernels", "kernels", "{}"),
    ("registers", "registers", "{}"),
    ("spilled B", "spill_bytes", "{}"),
    ("shared B", "shared_bytes", "{}"),
    ("blocks/SM", "blocks_per_sm", "{}"),
    ("occupancy %", "occupancy", "{:.0f}"),
    ("atom", "atom", "{}"),
    ("predicted µs", "predicted_us", "{:.1f}"),
    ("bound", "bound", "{}"),
    ("rate", "rate", "{}"),
    ("% of limit", "limit_percent", "{:.0f}"),
)


def generate(rgen, hw, path, folder):
    """The CLI's JSON: one result a spec, in order; a spec that fails has an error and does not end the run."""
    command = [rgen, "gen", "--hw", hw, path, "--emit", "cubin", "--json", "--no-cache", "-o", folder]
    run = subprocess.run(command, capture_output=True, text=True)
    if not run.stdout.strip():
        sys.exit(f"{' '.join(command)} failed with status {run.returncode}:\n{run.stderr}")
    return json.loads(run.stdout)["results"]


def profile_facts(rgen, hw):
    run = subprocess.run([rgen, "profile", "show", hw, "--json"], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{rgen} profile show {hw} failed:\n{run.stderr}")
    return json.loads(run.stdout)


def threads_per_sm(profile):
    return profile["gpu"]["max_threads_per_sm"]["value"]


def manifest_of(result):
    path = next(f for f in result["files"] if f.endswith(".manifest.json"))
    with open(path) as f:
        return json.load(f)


def tensor_bytes(manifest):
    total = 0
    for tensor in manifest["inputs"] + manifest["outputs"]:
        count = 1
        for extent in tensor["shape"]:
            count *= extent
        total += count * ELEMENT_BYTES[tensor["dtype"]]
    return total


def operations(nests):
    total = 0
    for nest in nests:
        points = 1
        for axis in nest["axes"]:
            points *= axis["extent"]
        total += points * (2 if any(axis.get("reduced") for axis in nest["axes"]) else 1)
    return total


def rate(nests, moved, us):
    ops = operations(nests)
    return f"{moved / us / 1e3:.0f} GB/s" if ops < 4 * moved else f"{ops / us / 1e3:.0f} GFLOP/s"


def row(result, spec, threads):
    """One line of the table: figures that do not exist stay absent."""
    entry = {"name": result["name"], "family": spec.get("family", spec.get("op", ""))}
    if "error" in result:
        return entry | {"error": result["error"]["message"]}
    manifest = manifest_of(result)
    launches = manifest["launch"]
    block = max(l["block"][0] * l["block"][1] * l["block"][2] for l in launches)
    nests = [n for g in result["plan"]["groups"] for n in g["nests"]]
    return entry | {
        "construct_ms": result["construct_ms"],
        "compile_ms": result["emit_ms"] + result["compile_ms"],
        "kernels": len(launches),
        "registers": result["registers"],
        "spill_bytes": result["spill_bytes"],
        "shared_bytes": result["shared_bytes"],
        "blocks_per_sm": result["blocks_per_sm"],
        "occupancy": 100 * min(1, result["blocks_per_sm"] * block / threads),
        "atom": max(nests, key=lambda n: n["estimate"]["us"])["atom"],
        "predicted_us": result["predicted_us"],
        "limit_us": result["limit_us"],
        "bound": result["bound"],
        "rate": rate(nests, tensor_bytes(manifest), result["predicted_us"]),
        "limit_percent": 100 * result["limit_us"] / result["predicted_us"],
    }


def cell(r, key, form):
    return form.format(r[key]) if key in r else ""


def markdown(rows):
    return document.table([c[0] for c in COLUMNS], [[cell(r, key, form) for _, key, form in COLUMNS] for r in rows])


def compact(runs):
    """One table for all profiles."""
    titles = ["workload"]
    keys = (("registers", "{}"), ("shared_bytes", "{}"), ("occupancy", "{:.0f} %"), ("predicted_us", "{:.1f}"), ("bound", "{}"), ("limit_percent", "{:.0f} %"))
    for run in runs:
        titles += [f"{run['profile']}: registers", "shared B", "occupancy", "predicted µs", "bound", "of limit"]
    lines = []
    for same in zip(*(run["rows"] for run in runs)):
        lines.append([same[0]["name"]] + [cell(r, key, form) for r in same for key, form in keys])
    return document.table(titles, lines)


def summary(run):
    hw, path, rows = run["profile"], run["specs"], run["rows"]
    good = [r for r in rows if "error" not in r]
    if not good:
        return f"{hw}, {path}: none of {len(rows)} made"
    construct = sorted(r["construct_ms"] for r in good)
    compile_ms = [r["compile_ms"] for r in good]
    bounds = {}
    for r in good:
        bounds[r["bound"]] = bounds.get(r["bound"], 0) + 1
    spilled = [f"{r['name']} ({r['spill_bytes']} B)" for r in good if r["spill_bytes"]]
    slowest = max(good, key=lambda r: r["compile_ms"])
    return (f"{hw}, {os.path.basename(path)}: {len(good)} of {len(rows)} made; construction median {statistics.median(construct):.1f} ms, at most "
            f"{construct[-1]:.1f} ms; emission and NVRTC median {statistics.median(compile_ms):.0f} ms, at most {slowest['compile_ms']:.0f} ms "
            f"({slowest['name']}); "
            f"spills: {', '.join(spilled) or 'none'}; registers at most {max(r['registers'] for r in good)}; occupancy median "
            f"{statistics.median(r['occupancy'] for r in good):.0f} %; of the limit: median {statistics.median(r['limit_percent'] for r in good):.0f} %; "
            f"bound by " + ", ".join(f"{b} {n}" for b, n in sorted(bounds.items(), key=lambda x: -x[1])))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="+", help="files of specs, e.g. tests/data/workloads.json bench/roller/workloads.json")
    parser.add_argument("--hw", action="append", metavar="PROFILE", help="profile of a GPU; may be repeated (default: a100, h100, rtx4090)")
    document.add_options(parser, "profile", "profile and file")
    options = parser.parse_args()
    groups = []
    for path in options.specs:
        specs, runs = document.load_specs(path), []
        for hw in options.hw or ["a100", "h100", "rtx4090"]:
            threads = threads_per_sm(profile_facts(options.rgen, hw))
            with tempfile.TemporaryDirectory() as folder:
                rows = [row(r, s, threads) for r, s in zip(generate(options.rgen, hw, path, folder), specs)]
            runs.append({"profile": hw, "specs": path, "rows": rows})
            print(summary(runs[-1]), file=sys.stderr)
        groups.append(runs)
    document.publish(groups, options, summary, markdown, compact)


if __name__ == "__main__":
    main()
