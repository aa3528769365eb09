#!/usr/bin/env python3
"""rgen's kernels on a GPU: verified, and timed in turns with cuBLAS's, cuDNN's and PyTorch's (and Triton's through torch.compile).

  rgen-regret --hw h100 workloads.json --plans 12 --prepare FOLDER      where a compiler is
  peers.py --workloads workloads.json FOLDER --output results.json      where the GPU is

Every contender is captured as a CUDA graph of calls that last about a millisecond together, and the graphs are replayed in turns; the median of the
replays counts. Buffers are the same again and again, caches are not flushed; what a library may do once (packing constants) it has done.
Math is IEEE (tf32 off) where the spec's is. A kernel whose result is wrong, or an error of a library, is said and the next is taken.
"""
import argparse
import datetime
import json
import math
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, os.pardir), HERE]
import document
import kernels
import operators


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", help="what rgen-regret --prepare wrote")
    p.add_argument("--workloads", required=True, metavar="FILE", help="the specs that it was given")
    p.add_argument("--output", metavar="FILE", help="where results go as JSON (default: nowhere)")
    p.add_argument("--device", type=int, default=0, metavar="N", help="the GPU's number (default: 0)")
    p.add_argument("--rounds", type=int, default=5, metavar="N", help="replays of each contender (default: 5)")
    p.add_argument("--batch-ms", type=float, default=1, metavar="MS", help="how long a graph should last (default: 1)")
    p.add_argument("--plans", type=int, default=1 << 30, metavar="N", help="at most so many of the prepared plans")
    p.add_argument("--triton", default="", metavar="TEXT", help="also torch.compile, for workloads whose name contains TEXT: it takes seconds each")
    p.add_argument("--budget", type=float, default=1e9, metavar="S", help="no further workload after so many seconds")
    p.add_argument("--resume", action="store_true", help="go on after what is in the output: also after a kernel that hung (exit status 3)")
    p.add_argument("--only", default="", metavar="TEXT", help="workloads whose name contains TEXT")
    return p.parse_args()


def import_torch(device):
    import torch
    torch.cuda.set_device(device)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.set_grad_enabled(False)
    torch.cuda.synchronize()
    return torch


def make_inputs(torch, manifest):
    types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    ranges = {"s8": (-127, 128, torch.int8), "u8": (0, 256, torch.uint8), "s32": (-1000, 1000, torch.int32)}
    made = {}
    for i in manifest["inputs"]:
        if i["dtype"] in types:
            made[i["name"]] = torch.randn(i["shape"], device="cuda").to(types[i["dtype"]])
        else:
            low, high, dtype = ranges[i["dtype"]]
            made[i["name"]] = torch.randint(low, high, i["shape"], dtype=dtype, device="cuda")
    return made


def reduction_length(spec):
    p = spec["params"]
    if "shape" in p:
        return max(p["shape"])
    if spec["op"] == "mlp":
        return max(p["dims"])
    return p.get("k") or p.get("seq") or p.get("ci", p.get("c", 1)) * p.get("r", p.get("h", 1)) * p.get("s", p.get("r", p.get("w", 1)))


def error_of(torch, out, reference):
    """‖out − reference‖ ÷ ‖reference‖, in f64 by pieces; NaN where an element was not written."""
    above = below = 0.0
    out, reference = out.reshape(-1), reference.reshape(-1)
    for a, b in zip(out.split(1 << 26), reference.split(1 << 26)):
        above += float((a.double() - b.double()).square().sum())
        below += float(b.double().square().sum())
    return math.sqrt(above / below) if below else math.sqrt(above)


class Contender:
    """A function that enqueues one call, as a graph of several."""

    def __init__(self, torch, run, batch_ms):
        self.torch, self.times = torch, []
        torch.cuda.synchronize()  # what `run` reads was made on another stream
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                run()
            stream.synchronize()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            run(), run()
            end.record()
            stream.synchronize()
            self.calls = min(200, max(1, math.ceil(2 * batch_ms / max(begin.elapsed_time(end), 1e-3))))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            for _ in range(self.calls):
                run()
        self.begin, self.end = begin, end
        self.replay(), self.times.clear()

    def replay(self):
        self.begin.record()
        self.graph.replay()
        self.end.record()
        self.end.synchronize()
        self.times.append(1e3 * self.begin.elapsed_time(self.end) / self.calls)

    @property
    def us(self):
        return statistics.median(self.times)


class Hung(Exception):
    """A kernel did not end; so will nothing else in this process."""


def run_once(torch, kernel, seconds=2):
    done = torch.cuda.Event()
    kernel()
    done.record()
    limit = time.monotonic() + seconds
    while not done.query():
        if time.monotonic() > limit:
            raise Hung


def said(e):
    return f"{type(e).__name__}: {e}".splitlines()[0][:200]


def measure(torch, spec, prepared, folder, hung, options):
    """A row of the results: the times of all plans and rivals, and the plans' errors. `hung`: plans that did not end, by rank; grows."""
    plans = prepared["plans"][: options.plans]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = spec.get("math") == "tf32"
    tensors = make_inputs(torch, plans[0]["manifest"])
    reference, rivals = operators.operator(torch, spec, tensors)
    expected = reference() if reference else None
    row = {"name": spec["name"], "profile": prepared["profile"], "space": prepared["space"], "plans": [], "rivals": {}}
    contenders, loaded = [], []
    if options.triton and options.triton in spec["name"]:
        for name, run in list(rivals.items())[:1]:
            rivals["Triton"] = torch.compile(run, mode="max-autotune-no-cudagraphs", dynamic=False)
    for name, run in rivals.items():
        try:
            contenders.append((row["rivals"], name, Contender(torch, run, options.batch_ms)))
        except Exception as e:
            row.setdefault("rival_errors", {})[name] = said(e)
            torch.cuda.synchronize()
    for plan in plans:
        told = {k: plan[k] for k in ("rank", "predicted_us", "plan")}
        row["plans"].append(told)
        if plan["rank"] in hung:
            told["failed"] = "does not end"
            continue
        try:
            with open(os.path.join(folder, plan["image"]), "rb") as f:
                kernel = kernels.Kernel(torch, plan["manifest"], f.read(), tensors)
            loaded.append(kernel)
            run_once(torch, kernel)
            if expected is not None:
                out = plan["manifest"]["outputs"][0]
                told["error"] = error_of(torch, kernel.outputs[out["name"]], expected)
                told["verified"] = told["error"] <= operators.tolerance(spec, out["dtype"], reduction_length(spec))
            contenders.append((told, "measured_us", Contender(torch, kernel, options.batch_ms)))
        except Hung:
            hung.append(plan["rank"])
            raise
        except Exception as e:
            told["failed"] = said(e)
            try:
                torch.cuda.synchronize()
            except Exception:  # the context is lost: nothing can go on
                raise RuntimeError(f"plan {plan['rank']}: {told['failed']}") from None
    for _ in range(options.rounds):
        for _, _, c in contenders:
            c.replay()
    for place, key, c in contenders:
        place[key] = c.us
    for kernel in loaded:
        kernel.close()
    return row


# ---- Figures

def spearman(a, b):
    def ranks(values):
        order = sorted(range(len(values)), key=lambda i: values[i])
        rank = [0] * len(values)
        for position, i in enumerate(order):
            rank[i] = position
        return rank

    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(ranks(a), ranks(b))) / (n * (n * n - 1)) if n > 1 else 1.0


def mean(ratios):
    ratios = list(ratios)
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None


def chosen(row):
    """The plan that users get, if it ran."""
    first = row["plans"][0] if row.get("plans") else {}
    return first if "measured_us" in first else None


def best_us(row):
    return min(p["measured_us"] for p in row["plans"] if "measured_us" in p)


def summarise(rows):
    ran = [r for r in rows if chosen(r)]
    beside = [min(r["rivals"].values()) / chosen(r)["measured_us"] for r in ran if r["rivals"]]
    predictions = [(chosen(r)["predicted_us"], chosen(r)["measured_us"]) for r in ran]
    checked = [p["verified"] for r in rows for p in r.get("plans", []) if "verified" in p]
    regrets = [chosen(r)["measured_us"] / best_us(r) for r in ran]
    return {"workloads": len(rows), "ran": len(ran), "plans_verified": f"{sum(checked)} of {len(checked)}",
            "rival_over_rgen": {"workloads": len(beside), "geometric_mean": mean(beside), "at_least_1": sum(b >= 1 for b in beside)},
            "prediction": {"spearman": spearman(*zip(*predictions)) if ran else None, "predicted_over_measured": mean(p / m for p, m in predictions)},
            "regret": {"geometric_mean": mean(regrets), "within_10_percent": sum(r <= 1.1 for r in regrets) / max(len(regrets), 1)}}


def line(row):
    c = chosen(row)
    if not c:
        return f"{row['name'][:40]:40} {row.get('failed') or (row['plans'] or [{}])[0].get('failed', 'no plan')}"
    wrong = [p["rank"] for p in row["plans"] if p.get("verified") is False]
    rival = min(row["rivals"], key=row["rivals"].get, default=None)
    return (f"{row['name'][:40]:40} {c['measured_us']:9.2f} {c['predicted_us']:9.2f} {c['predicted_us'] / c['measured_us']:5.2f} {best_us(row):9.2f} "
            + (f"{row['rivals'][rival]:9.2f} {row['rivals'][rival] / c['measured_us']:5.2f} {rival}" if rival else f"{'-':>9} {'-':>5}")
            + (f"  WRONG: plans {wrong}" if wrong else ""))


def main():
    options = parse_arguments()
    start = time.monotonic()
    specs = {e["name"]: e for e in document.load_specs(options.workloads)}
    torch = import_torch(options.device)
    rows, hung = [], {}
    if options.resume and os.path.exists(options.output):
        with open(options.output) as f:
            before = json.load(f)
        rows, hung = before["results"], before["hung"]
    done = {r["name"] for r in rows}
    result = {"date": datetime.date.today().isoformat(), "device": torch.cuda.get_device_name(options.device),
              "peers": {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()},
              "hung": hung, "results": rows}

    def write():
        if options.output:
            with open(options.output, "w") as f:
                json.dump(result | {"summary": summarise(rows)}, f, indent=1)
                f.write("\n")

    print(f"{'workload':40} {'rgen us':>9} {'predicted':>9} {'ratio':>5} {'best plan':>9} {'rival us':>9} {'/rgen':>5}")
    for name, spec in specs.items():
        path = os.path.join(options.folder, name + ".json")
        if options.only not in name or name in done or not os.path.exists(path):
            continue
        if time.monotonic() - start > options.budget:
            print("the time is up")
            break
        with open(path) as f:
            prepared = json.load(f)
        try:
            row = measure(torch, spec, prepared, options.folder, hung.setdefault(name, []), options)
        except Hung:
            print(f"{name}: plan {hung[name][-1]} does not end", flush=True)
            write()
            os._exit(3)  # the context cannot be closed
        except Exception as e:
            row = {"name": name, "failed": said(e), "plans": [], "rivals": {}}
            rows.append(row)
            write()
            torch.cuda.synchronize()  # raises where the context is lost: what follows would fail too
            rows.pop()
        rows.append(row)
        print(line(row), flush=True)
        write()
        torch.cuda.empty_cache()
    write()
    print(json.dumps(summarise(rows), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
