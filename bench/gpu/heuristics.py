#!/usr/bin/env python3
"""rgen's tiles and times of matrix products beside those of NVIDIA's nvMatmulHeuristics. Neither needs a GPU.

python3 -m venv /tmp/heuristics && /tmp/heuristics/bin/pip install nvidia-matmul-heuristics
bench/gpu/heuristics.py --python /tmp/heuristics/bin/python --types bf16 f32 --markdown heuristics.md

Both times have a launch in them. nvMatmulHeuristics is used for this comparison only."""
import argparse
import json
import math
import os
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import document

DEVICES = {"a100_80": "A100_SXM_80GB", "h100": "H100_SXM", "rtx4090": "RTX_4090"}  # profile: nvMatmulHeuristics' name
# operands, accumulator, result in the letters of nvMatmulHeuristics.h (B: bytes, T: bf16, F: tf32, I: s32)
PRECISIONS = {"f16": "HSH", "bf16": "TST", "f32": "SSS", "tf32": "SFS", "s8": "BII"}
SHAPES = ((256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192),
          (16, 4096, 4096), (64, 4096, 4096), (128, 4096, 4096), (512, 4096, 4096), (128, 3072, 768), (128, 768, 3072), (512, 3072, 768),
          (2048, 11008, 4096), (2048, 4096, 11008), (4096, 128, 4096), (1000, 1000, 1000), (1536, 1536, 1536), (65536, 1024, 1024),
          (256, 256, 16384))


def answer_for_nvidia(device, precision, shapes):
    """Runs in the interpreter that has the package. Its version 0.1.0 crashes when an interface is destroyed, so the process ends here."""
    from nvMatmulHeuristics import (NvMatmulHeuristicsFlags, NvMatmulHeuristicsInterface, NvMatmulHeuristicsMatmulLayout,
                                    NvMatmulHeuristicsNvidiaGpu, NvMatmulHeuristicsTarget)
    interface = NvMatmulHeuristicsInterface(NvMatmulHeuristicsTarget.GENERIC, precision,
                                            flags=NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING)
    gpu = interface.createHardwareDescriptor()
    interface.setHardwarePredefinedGpu(gpu, NvMatmulHeuristicsNvidiaGpu[device])
    layout = NvMatmulHeuristicsMatmulLayout.NN_ROW_MAJOR
    interface.loadInternalDiscoverySet(layout, gpu)
    found = []
    for m, n, k, batch in shapes:
        best = interface.get(interface.makeNvMatmulHeuristicsProblem(m, n, k, layout, batch), 1, gpu)
        if not best:
            found.append(None)
            continue
        c = best[0]["kernel"]
        found.append({"us": best[0]["runtime"] * 1e6, "cta": [c.cta_tile_m, c.cta_tile_n, c.cta_tile_k],
                      "warp": [c.warp_tile_m, c.warp_tile_n, c.warp_tile_k], "stages": c.stages, "split_k": c.split_k,
                      "cluster": [c.cluster_m, c.cluster_n]})
    print(json.dumps(found), flush=True)
    os._exit(0)


def ask_nvidia(python, device, precision, shapes):
    run = subprocess.run([python, __file__, "--child", device, precision], input=json.dumps(shapes), capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"nvMatmulHeuristics for {device}, {precision} failed:\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])


def spec(name, dtype, m, n, k, batch):
    """The result has the operands' type, of bytes s32."""
    params = {"m": m, "n": n, "k": k} | ({"batch": batch} if batch > 1 else {})
    if dtype not in ("f32", "tf32"):
        params["out"] = "s32" if dtype == "s8" else dtype
    math = {"math": "tf32"} if dtype == "tf32" else {}
    return {"name": name, "op": "matmul", "dtype": "f32" if math else dtype, "params": params} | math


def block_tile(nest):
    """Extents of a warp's and of a block's tile by axis: neighbouring tasks lie along the last parallel axis, `rows` of them along the one before."""
    tile = {a["name"]: a["tile"] for a in nest["axes"]}
    extent = {a["name"]: a["extent"] for a in nest["axes"]}
    block = dict(tile)
    shape = nest.get("block", {"tasks": 1, "rows": 1})
    tasks, rows = shape["tasks"], shape["rows"]
    for place, p in enumerate(reversed(nest["parallel"])):
        along = min(tasks // rows if place == 0 else tasks, p["parts"])
        block[p["axis"]] = min(extent[p["axis"]], tile[p["axis"]] * along)
        tasks = math.ceil(tasks / along)
    return tile, block


def tiles(nest):
    """m × n × k of a warp and of a block, and the stages of the latter's pipeline through shared memory (1: none)."""
    shape = nest.get("block", {})
    if "stages" not in shape:
        tile, block = block_tile(nest)
        return in_order(tile), in_order(block), 1
    block = [shape["rows"], shape["columns"], shape["k"]]
    return [block[0] // shape["warps"][0], block[1] // shape["warps"][1], block[2]], block, shape["stages"]


def in_order(tile):
    """m, n, k; axes of extent 1 are gone, neighbours that move alike are one axis (`b_m`)."""
    return [next((size for name, size in tile.items() if axis in name.split("_")), 1) for axis in "mnk"]


def ask_rgen(rgen, profile, specs):
    run = subprocess.run([rgen, "predict", "--hw", profile, "--json", "-"], input=json.dumps(specs), capture_output=True, text=True)
    if not run.stdout.strip():
        sys.exit(f"rgen predict --hw {profile} failed:\n{run.stderr}")
    found = []
    for r in json.loads(run.stdout)["results"]:
        if "error" in r:
            found.append(None)
            continue
        nest = max((n for g in r["plan"]["groups"] for n in g["nests"]), key=lambda n: n["estimate"]["us"])
        warp, block, stages = tiles(nest)
        found.append({"us": r["predicted_us"], "limit_us": r["limit_us"], "atom": nest["atom"],
                      "warp": warp, "block": block, "stages": stages, "bound": r["bound"]})
    return found


def problems(options):
    """(name, type, m, n, k, batch) of the file's products and of the list above."""
    all_of_them = []
    for e in document.load_specs(options.specs):
        if e.get("op") == "matmul" and e.get("dtype", "f32") in options.types:
            p = e["params"]
            all_of_them.append((e["name"], e.get("dtype", "f32"), p["m"], p["n"], p["k"], p.get("batch", 1)))
    for dtype in options.types:
        if options.list is None or dtype in options.list:
            all_of_them += [(f"{dtype} {m}×{n}×{k}", dtype, m, n, k, 1) for m, n, k in SHAPES]
    return all_of_them


def compare(options, profile):
    wanted = problems(options)
    ours = ask_rgen(options.rgen, profile, [spec(f"p{i}", t, m, n, k, b) for i, (_, t, m, n, k, b) in enumerate(wanted)])
    theirs = {}
    for dtype in options.types:
        places = [i for i, w in enumerate(wanted) if w[1] == dtype]
        theirs |= dict(zip(places, ask_nvidia(options.python, DEVICES[profile], PRECISIONS[dtype], [wanted[i][2:] for i in places])))
    return [{"name": w[0], "type": w[1], "m": w[2], "n": w[3], "k": w[4], "batch": w[5], "rgen": ours[i], "nvidia": theirs[i]}
            for i, w in enumerate(wanted)]


def cross(values):
    return "×".join(map(str, values))


def ratio(r):
    return f"{r['rgen']['us'] / r['nvidia']['us']:.2f}" if r["rgen"] and r["nvidia"] else ""


def markdown(rows):
    titles = ("product", "rgen: block", "warp", "stages", "atom", "µs", "bound", "NVIDIA: CTA", "warp", "stages", "split k", "cluster", "µs", "rgen ÷ NVIDIA")
    lines = []
    for r in rows:
        a, b = r["rgen"], r["nvidia"]
        ours = [cross(a["block"]), cross(a["warp"]), a["stages"], a["atom"], f"{a['us']:.1f}", a["bound"]] if a else [""] * 6
        other = [cross(b["cta"]), cross(b["warp"]), b["stages"], b["split_k"], cross(b["cluster"]), f"{b['us']:.1f}"] if b else [""] * 6
        lines.append([r["name"], *ours, *other, ratio(r)])
    return document.table(titles, lines)


def compact(runs):
    """One table for all devices: tiles of a block, of m × n × k where it is staged, and of a warp; stages, and NVIDIA's split of k."""
    titles, lines = ["product"], []
    for run in runs:
        titles += [f"{run['profile']}: rgen", "µs", "NVIDIA", "µs", "÷"]
    for same in zip(*(run["rows"] for run in runs)):
        line = [same[0]["name"]]
        for a, b, r in ((r["rgen"], r["nvidia"], r) for r in same):
            staged = a and a["stages"] > 1
            line += [f"{cross(a['block'][:3 if staged else 2])} / {cross(a['warp'][:2])}" + (f", {a['stages']}" if staged else ""),
                     f"{a['us']:.1f}"] if a else ["", ""]
            split = f", k ÷ {b['split_k']}" if b and b["split_k"] > 1 else ""
            line += [f"{cross(b['cta'])} / {cross(b['warp'][:2])}, {b['stages']}{split}", f"{b['us']:.1f}"] if b else ["", ""]
            line.append(ratio(r))
        lines.append(line)
    return document.table(titles, lines)


def summary(run):
    parts, rows = [], run["rows"]
    for dtype in dict.fromkeys(r["type"] for r in rows):
        ratios = sorted(r["rgen"]["us"] / r["nvidia"]["us"] for r in rows if r["type"] == dtype and r["rgen"] and r["nvidia"])
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            parts.append(f"{dtype} {mean:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}, {len(ratios)})")
    return f"{run['profile']}: rgen ÷ NVIDIA, geometric mean (least to most, products): " + ", ".join(parts)


def main():
    if sys.argv[1:2] == ["--child"]:
        answer_for_nvidia(sys.argv[2], sys.argv[3], json.load(sys.stdin))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hw", action="append", choices=DEVICES, help="may be repeated (default: all)")
    parser.add_argument("--types", nargs="+", choices=PRECISIONS, default=list(PRECISIONS), help="(default: all)")
    parser.add_argument("--list", nargs="*", choices=PRECISIONS, help="types of the script's own list of shapes (default: as --types)")
    parser.add_argument("--specs", default="tests/data/workloads.json", help="its products are compared too (default: %(default)s)")
    parser.add_argument("--python", default=sys.executable, help="interpreter with nvidia-matmul-heuristics (default: this one)")
    document.add_options(parser, "device", "device")
    options = parser.parse_args()
    runs = [{"profile": p, "rows": compare(options, p)} for p in options.hw or DEVICES]
    document.publish([runs], options, summary, markdown, compact)


if __name__ == "__main__":
    main()
