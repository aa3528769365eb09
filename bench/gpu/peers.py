#!/usr/bin/env python3
"""rgen's times on a GPU beside cuBLAS's and cuDNN's (through PyTorch) and Triton's (through torch.compile), and beside its own predictions.

  rgen bench --hw PROFILE --json workloads.json > bench.json
  peers.py --bench bench.json --workloads workloads.json --output results.json

Peers are timed as rgen times itself: the same buffers again and again on one stream, by events around batches of at least a millisecond, the median of
batches; caches are not flushed. Math is IEEE (tf32 off) where rgen's is. Without PyTorch or a device only predictions are compared.
"""
import argparse
import datetime
import json
import math
import os
import statistics
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from document import load_specs


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bench", required=True, metavar="FILE", help="what rgen bench --json printed")
    p.add_argument("--workloads", required=True, metavar="FILE", help="the specs that it was given")
    p.add_argument("--output", metavar="FILE", help="where results go as JSON (default: nowhere)")
    p.add_argument("--device", type=int, default=0, metavar="N", help="the GPU's number (default: 0)")
    p.add_argument("--seconds", type=float, default=0.1, metavar="S", help="how long each peer is timed (default: 0.1)")
    p.add_argument("--no-triton", action="store_true", help="leave torch.compile out: it takes minutes")
    p.add_argument("--only", default="", metavar="TEXT", help="workloads whose name contains TEXT")
    return p.parse_args()


def import_torch(device):
    """PyTorch, or why there is none."""
    try:
        import torch
    except ImportError as e:
        return None, f"PyTorch is not installed ({e})"
    if not torch.cuda.is_available():
        return None, "PyTorch finds no GPU"
    torch.cuda.set_device(device)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return torch, ""


# ---- Peers: a spec becomes a function of no arguments, or None where PyTorch has no such operator.

def tensor(torch, dtype, *shape):
    types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    if dtype == "s8":
        return torch.randint(-127, 128, shape, dtype=torch.int8, device="cuda")
    return torch.randn(*shape, device="cuda").to(types[dtype])


def epilogue_of(torch, spec, channels, shape, channel_axis=-1):
    """The chain of the spec's epilogue as one function, or None."""
    f = torch.nn.functional
    steps = []
    for name in spec.get("epilogue", []):
        if name == "bias":
            b = torch.randn(channels, device="cuda")
            b = b.to(tensor(torch, spec["dtype"], 1).dtype)
            b = b.view([-1 if a == channel_axis % len(shape) else 1 for a in range(len(shape))])
            steps.append(lambda x, b=b: x + b)
        elif name in ("relu", "relu6", "silu", "sigmoid", "tanh", "hardswish"):
            steps.append({"relu": f.relu, "relu6": f.relu6, "silu": f.silu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "hardswish": f.hardswish}[name])
        elif name in ("gelu_erf", "gelu_tanh"):
            steps.append(lambda x, a="none" if name == "gelu_erf" else "tanh": f.gelu(x, approximate=a))
        else:
            return None

    def chain(x):
        for step in steps:
            x = step(x)
        return x

    return chain


def matmul(torch, spec):
    p, dtype = spec["params"], spec["dtype"]
    if dtype not in ("f32", "f16", "bf16", "s8") or p.get("transpose_a"):
        return None
    batch = [p["batch"]] if "batch" in p else []
    a = tensor(torch, dtype, *batch, p["m"], p["k"])
    b = tensor(torch, dtype, *batch, p["n"], p["k"]).transpose(-1, -2) if p.get("transpose_b") else tensor(torch, dtype, *batch, p["k"], p["n"])
    if dtype == "s8":
        if batch or spec.get("epilogue") or p["m"] <= 16:
            return None
        b = b.t().contiguous().t()  # as cuBLASLt wants it
        return lambda: torch._int_mm(a, b)
    end = epilogue_of(torch, spec, p["n"], [*batch, p["m"], p["n"]])
    return end and (lambda: end(torch.matmul(a, b)))


def conv2d(torch, spec):
    p, dtype = spec["params"], spec["dtype"]
    if dtype not in ("f32", "f16", "bf16") or isinstance(p.get("pad", 0), list):
        return None
    layout = torch.channels_last if p.get("layout", "NHWC") == "NHWC" else torch.contiguous_format
    x = tensor(torch, dtype, p["n"], p["ci"], p["h"], p["w"]).to(memory_format=layout)
    w = tensor(torch, dtype, p["co"], p["ci"] // p.get("groups", 1), p["r"], p["s"]).to(memory_format=layout)
    end = epilogue_of(torch, spec, p["co"], [0, 0, 0, 0], 1)
    conv = torch.nn.functional.conv2d
    return end and (lambda: end(conv(x, w, None, p.get("stride", 1), p.get("pad", 0), p.get("dilation", 1), p.get("groups", 1))))


def pool(torch, spec):
    p = spec["params"]
    layout = torch.channels_last if p.get("layout", "NHWC") == "NHWC" else torch.contiguous_format
    x = tensor(torch, spec["dtype"], p["n"], p["c"], p["h"], p["w"]).to(memory_format=layout)
    f = torch.nn.functional
    if spec["op"] == "gavgpool":
        return lambda: f.adaptive_avg_pool2d(x, 1)
    return lambda: (f.max_pool2d if spec["op"] == "maxpool" else f.avg_pool2d)(x, p["r"], p.get("stride", 1), p.get("pad", 0))


def elementwise(torch, spec):
    p, dtype = spec["params"], spec["dtype"]
    x = tensor(torch, dtype, *p["shape"])
    f = torch.nn.functional
    last = p["shape"][-1:]
    gamma, beta = tensor(torch, dtype, *last), tensor(torch, dtype, *last)
    axis = p.get("axis", -1)
    if spec["op"] == "mul_add":
        y, z = tensor(torch, dtype, *p["shape"]), tensor(torch, dtype, *p["shape"])
        return lambda: torch.addcmul(z, x, y)
    if spec["op"] == "bias_act":
        end = epilogue_of(torch, spec, last[0], p["shape"])
        return end and (lambda: end(x))
    return {
        "relu": lambda: f.relu(x),
        "transpose": lambda: x.permute(p.get("perm", [1, 0])).contiguous(),
        "reduce_sum": lambda: x.sum(axis),
        "reduce_max": lambda: x.amax(axis),
        "reduce_mean": lambda: x.mean(axis),
        "softmax": lambda: f.softmax(x, -1),
        "layernorm": lambda: f.layer_norm(x, last, gamma, beta, p.get("eps", 1e-5)),
        "rmsnorm": lambda: f.rms_norm(x, last, gamma, p.get("eps", 1e-6)),
    }[spec["op"]]


def mlp(torch, spec):
    p = spec["params"]
    x = tensor(torch, spec["dtype"], p["batch"], p["dims"][0])
    layers = [(tensor(torch, spec["dtype"], n, k), tensor(torch, spec["dtype"], n)) for k, n in zip(p["dims"], p["dims"][1:])]

    def run():
        y = x
        for i, (w, b) in enumerate(layers):
            y = torch.nn.functional.linear(y, w, b)
            if i + 1 < len(layers):
                y = torch.relu(y)
        return y

    return run


def attention(torch, spec):
    p = spec["params"]
    q, k, v = (tensor(torch, spec["dtype"], 1, p["heads"], p["seq"], p["dim"]) for _ in range(3))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=p.get("scale"))


OPERATORS = {"matmul": matmul, "conv2d": conv2d, "maxpool": pool, "avgpool": pool, "gavgpool": pool, "mlp": mlp, "attention": attention}
OPERATORS.update({op: elementwise for op in
                  ("mul_add", "bias_act", "relu", "transpose", "reduce_sum", "reduce_max", "reduce_mean", "softmax", "layernorm", "rmsnorm")})


def time_us(torch, run, seconds):
    """Median time of a call."""
    def batch(calls):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    calls = 1
    batch(3)
    while batch(calls) < 1 and calls < 1 << 14:
        calls *= 2
    times, spent = [], 0.0
    while spent < seconds * 1e3 or len(times) < 5:
        times.append(batch(calls))
        spent += times[-1]
    return 1e3 * statistics.median(times) / calls


def measure_peers(torch, spec, options):
    """{"library_us", "triton_us"} as far as they exist, and {"peer_error"}."""
    found = {}
    build = OPERATORS.get(spec.get("op"))
    try:
        with torch.no_grad():
            run = build and build(torch, spec)
            if not run:
                return found
            found["library_us"] = time_us(torch, run, options.seconds)
            if not options.no_triton:
                compiled = torch.compile(run, mode="max-autotune-no-cudagraphs", dynamic=False)
                found["triton_us"] = time_us(torch, compiled, options.seconds)
    except Exception as e:  # one operator that a library lacks must not end the table
        found["peer_error"] = f"{type(e).__name__}: {e}".splitlines()[0][:200]
    finally:
        torch.cuda.empty_cache()
    return found


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


def mean_ratio(pairs):
    return math.exp(statistics.fmean(math.log(x / y) for x, y in pairs)) if pairs else None


def summarise(rows):
    measured = [r for r in rows if "measured_us" in r]
    summary = {"workloads": len(rows), "verified": sum(bool(r.get("verified")) for r in rows)}
    if measured:
        predicted, times = [r["predicted_us"] for r in measured], [r["measured_us"] for r in measured]
        summary["prediction"] = {"spearman": spearman(predicted, times), "predicted_over_measured": mean_ratio(list(zip(predicted, times))),
                                 "within_2x": sum(0.5 <= p / t <= 2 for p, t in zip(predicted, times)) / len(times)}
    for peer in ("library", "triton"):
        pairs = [(r[peer + "_us"], r["measured_us"]) for r in measured if peer + "_us" in r]
        if pairs:
            summary[peer + "_over_rgen"] = {"workloads": len(pairs), "geometric_mean": mean_ratio(pairs), "rgen_faster": sum(p > m for p, m in pairs)}
    return summary


def table(rows):
    lines = [f"{'workload':36} {'rgen':>9} {'predicted':>9} {'ratio':>6} {'library':>9} {'triton':>9}  bound"]
    for r in rows:
        def us(key):
            return f"{r[key]:9.2f}" if key in r else f"{'-':>9}"
        ratio = f"{r['predicted_us'] / r['measured_us']:6.2f}" if "measured_us" in r and "predicted_us" in r else f"{'-':>6}"
        lines.append(f"{r['name'][:36]:36} {us('measured_us')} {us('predicted_us')} {ratio} {us('library_us')} {us('triton_us')}  "
                     f"{r.get('error', r.get('peer_error', r.get('bound', '')))}")
    return "\n".join(lines)


def main():
    options = parse_arguments()
    with open(options.bench) as f:
        bench = json.load(f)
    specs = {e["name"]: e for e in load_specs(options.workloads)}
    torch, why = import_torch(options.device)
    if not torch:
        print(f"peers are skipped: {why}", file=sys.stderr)
    rows = []
    for r in bench["results"]:
        if options.only not in r["name"]:
            continue
        row = {k: r[k] for k in ("name", "predicted_us", "limit_us", "bound", "measured_us", "measured_min_us", "verified", "registers", "device") if k in r}
        if "error" in r:
            row["error"] = r["error"]["message"]
        if torch and r["name"] in specs:
            row.update(measure_peers(torch, specs[r["name"]], options))
        rows.append(row)
        print(f"\r{len(rows)} of {len(bench['results'])}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    document = {"date": datetime.date.today().isoformat(), "rgen": bench["rgen"], "profile": bench["profile"], "summary": summarise(rows), "results": rows}
    if torch:
        document["peers"] = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
                             "device": torch.cuda.get_device_name(options.device)}
    print(table(rows))
    print(json.dumps(document["summary"], indent=2))
    if options.output:
        with open(options.output, "w") as f:
            json.dump(document, f, indent=1)
            f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
