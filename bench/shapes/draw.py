#!/usr/bin/env python3
"""Shapes that nobody picked:  draw.py --seed N --count C > shapes.json

Workloads drawn from distributions that look like layers of other people's models: images that are not square, few or odd channels,
narrow attention heads, thousands of classes, one-row filters, unequal strides, sequences of any length. The document has the form of
tests/data/workloads.json. The same seed gives the same list; entry i of family F does not depend on how many are drawn."""
import argparse
import json
import math
import random

MAX_FLOP, MAX_VALUES = 1.5e9, 12e6  # so that a list of hundreds is measured in an hour
ACTIVATIONS = ["relu", "relu6", "gelu_erf", "gelu_tanh", "silu", "sigmoid", "tanh", "hardswish"]


class Draw(random.Random):
    def size(self, low, high, even=0.6):
        """Log-uniform; with probability `even` a multiple of 8, as trained networks prefer."""
        v = round(math.exp(self.uniform(math.log(low), math.log(high))))
        return max(8, v // 8 * 8) if v >= 8 and self.random() < even else v

    def pick(self, weights):
        """A key of {value: weight}."""
        return self.choices(list(weights), list(weights.values()))[0]

    def sequence(self):
        return self.pick({1: 2, self.randint(2, 16): 2, self.size(17, 128, 0.3): 4, self.size(100, 600, 0.3): 3})

    def channels(self, high=768):
        return self.pick({self.randint(1, 7): 1, self.size(8, high): 6, self.size(8, high, 0): 2})

    def image(self):
        h = self.size(5, 260, 0.3)
        return h, self.pick({h: 1, max(4, round(h * self.uniform(0.4, 2.2))): 2})

    def epilogue(self, none=1):
        return self.pick({(): none, ("relu",): 1, ("bias",): 1, ("bias", self.choice(ACTIVATIONS)): 2})


def matmul(d, dtype):
    shape = {"m": d.sequence(), "n": d.pick({d.size(8, 4096): 5, d.randint(2, 20): 1, d.size(1000, 12000, 0.2): 1}), "k": d.size(16, 4096)}
    p = shape | {"f32": {}, "bf16": {"out": "bf16"}, "s8": {"out": "s32"}}[dtype]
    epilogue = () if dtype == "s8" else d.epilogue()
    if dtype == "f32" and d.random() < 0.2:  # a head's products: narrow, many
        s, width = d.sequence(), d.pick({d.choice([16, 24, 32, 40, 48, 64, 72, 80, 96, 128]): 1})
        n, k = d.choice([(s, width), (width, s)])
        p, epilogue = {"m": d.sequence(), "n": n, "k": k, "batch": d.randint(2, 24)}, ()
    return "matmul", p, epilogue, 2 * p.get("batch", 1) * p["m"] * p["n"] * p["k"], p.get("batch", 1) * max(p["n"] * p["k"], p["m"] * p["n"])


def conv2d(d, dtype, depthwise=False):
    h, w = d.image()
    r, s = d.pick({(3, 3): 6, (1, 1): 0 if depthwise else 6, (5, 5): 2, (7, 7): 1, (1, 3): 1, (3, 1): 1, (1, 7): 1, (7, 1): 1, (1, 5): 1, (2, 2): 1, (4, 4): 1})
    stride = d.pick({1: 7, 2: 4, (2, 1): 1, (1, 2): 1, 4: 1 if min(r, s) >= 4 else 0})
    dilation = d.pick({1: 12, 2: 1}) if r * s > 1 else 1
    pad = d.pick({(dilation * (r - 1) // 2, dilation * (s - 1) // 2): 5, (0, 0): 1})
    ci = d.channels()
    groups, co = (ci, ci) if depthwise else (1, d.channels(1024))
    if not depthwise and ci % 16 == 0 and d.random() < 0.08:
        groups = d.choice([2, 4, ci // 8])
        co = -(-co // groups) * groups
    flat = lambda v: v if isinstance(v, int) else v[0] if v[0] == v[1] else list(v)
    p = {"n": d.pick({1: 5, d.randint(2, 8): 1}), "h": h, "w": w, "ci": ci, "co": co, "r": r, "s": s, "stride": flat(stride), "pad": flat(pad),
         "dilation": dilation, "groups": groups, "layout": d.pick({"NHWC": 3, "NCHW": 2 if dtype == "f32" else 0})}
    if dtype == "bf16":
        p["out"] = "bf16"
    sh, sw = (stride, stride) if isinstance(stride, int) else stride
    ho, wo = (h + 2 * pad[0] - dilation * (r - 1) - 1) // sh + 1, (w + 2 * pad[1] - dilation * (s - 1) - 1) // sw + 1
    points = p["n"] * ho * wo * co if min(ho, wo) > 0 else math.inf
    return "conv2d", p, ("bias",) if d.random() < 0.2 else ("bias", d.choice(ACTIVATIONS[:2] + ["silu"])), 2 * points * ci // groups * r * s if points < math.inf else math.inf, max(points, p["n"] * h * w * ci)


def pool(d):
    h, w = d.image()
    layout, n, c = d.pick({"NHWC": 3, "NCHW": 2}), d.pick({1: 4, d.randint(2, 8): 1}), d.channels(1024)
    if d.random() < 0.25:
        h, w = min(h, 32), min(w, 32)
        return "gavgpool", {"n": n, "h": h, "w": w, "c": c, "layout": layout}, (), 0, n * h * w * c
    r = d.pick({2: 3, 3: 4, 5: 1})
    p = {"n": n, "h": h, "w": w, "c": c, "r": r, "s": r, "stride": d.pick({1: 1, 2: 4, r: 1}), "pad": d.choice([0, r // 2]), "layout": layout}
    return d.pick({"maxpool": 3, "avgpool": 2}), p, (), 0, n * h * w * c


def rows(d):
    """[rows, columns] of something normalised or reduced: tokens × width, or anything × classes."""
    return [d.pick({d.size(1, 64, 0): 1, d.size(32, 4096, 0.4): 4}), d.pick({d.size(16, 4096): 4, d.size(16, 1200, 0): 2, d.size(1000, 50000, 0.2): 1})]


def elementwise(d):
    if d.random() < 0.4:
        shape = d.pick({(d.size(1000, 8e6, 0.2),): 1, (d.size(1, 64, 0), *d.image(), d.channels(256)): 1})
        return "mul_add", {"shape": list(shape)}, (), 0, math.prod(shape)
    shape = rows(d)
    return "bias_act", {"shape": shape}, ("bias", d.choice(ACTIVATIONS)), 0, math.prod(shape)


def transpose(d):
    if d.random() < 0.4:
        shape, perm = [d.size(10, 4096, 0.4), d.size(10, 4096, 0.4)], [1, 0]
    else:
        n, c, (h, w), heads = d.randint(1, 8), d.channels(256), d.image(), d.randint(2, 16)
        shape, perm = d.choice([([n, c, h, w], [0, 2, 3, 1]), ([n, h, w, c], [0, 3, 1, 2]), ([n, d.size(16, 512, 0.3), heads, d.choice([32, 40, 64, 80, 128])], [0, 2, 1, 3])])
    return "transpose", {"shape": shape, "perm": perm}, (), 0, math.prod(shape)


def reduction(d):
    shape = rows(d)
    return "reduce_sum", {"shape": shape, "axis": d.randint(0, 1)}, (), 0, math.prod(shape)


def norm(d):
    shape, op = rows(d), d.choice(["softmax", "layernorm", "rmsnorm"])
    return op, {"shape": shape} | ({} if op == "softmax" else {"eps": 1e-5}), (), 0, math.prod(shape)


def mlp(d):
    batch, dims = d.sequence(), [d.size(16, 2048), d.size(16, 1024), d.randint(2, 1000)]
    return "mlp", {"batch": batch, "dims": dims}, (), 2 * batch * sum(a * b for a, b in zip(dims, dims[1:])), max(a * b for a, b in zip(dims, dims[1:]))


def attention(d):
    heads, seq, dim = d.randint(1, 16), max(2, d.sequence()), d.choice([16, 24, 32, 40, 48, 64, 72, 80, 96, 128])
    return "attention", {"heads": heads, "seq": seq, "dim": dim, "scale": dim ** -0.5}, (), 4 * heads * seq * seq * dim, heads * seq * max(seq, dim)


FAMILIES = {  # family: (how to draw one, share)
    "gemm_f32": (lambda d: matmul(d, "f32"), 16), "gemm_bf16": (lambda d: matmul(d, "bf16"), 6), "gemm_s8": (lambda d: matmul(d, "s8"), 5),
    "conv_f32": (lambda d: conv2d(d, "f32"), 24), "conv_bf16": (lambda d: conv2d(d, "bf16"), 6), "depthwise": (lambda d: conv2d(d, "f32", True), 8),
    "pool": (pool, 6), "elementwise": (elementwise, 6), "transpose": (transpose, 6), "reduction": (reduction, 5), "norm": (norm, 8),
    "mlp": (mlp, 3), "attention": (attention, 5)}


def entry(family, seed, index):
    for attempt in range(1000):
        d = Draw(f"{seed}/{family}/{index}/{attempt}")
        op, params, epilogue, flop, values = FAMILIES[family][0](d)
        if flop <= MAX_FLOP and values <= MAX_VALUES and (op in ("mlp", "attention") or values >= 4000):
            dtype = {"gemm_bf16": "bf16", "conv_bf16": "bf16", "gemm_s8": "s8"}.get(family, "f32")
            return {"name": f"{family}_{index}", "family": family, "op": op, "dtype": dtype, "params": params, "epilogue": list(epilogue)}
    raise SystemExit(f"{family}: no shape within the limits")


def draw(seed, count, only=None):
    shares = {f: s for f, (_, s) in FAMILIES.items() if only is None or f in only}
    total, due, drawn = sum(shares.values()), dict.fromkeys(shares, 0.0), dict.fromkeys(shares, 0)
    for _ in range(count):  # the family that is furthest behind its share: any prefix has the right mix
        for f, s in shares.items():
            due[f] += s / total
        f = max(due, key=due.get)
        due[f] -= 1
        yield entry(f, seed, drawn[f])
        drawn[f] += 1


if __name__ == "__main__":
    o = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    o.add_argument("--seed", type=int, default=1)
    o.add_argument("--count", type=int, default=300)
    o.add_argument("--only", help="families, separated by commas")
    o = o.parse_args()
    entries = list(draw(o.seed, o.count, o.only and o.only.split(",")))
    print('{"notes": "bench/shapes/draw.py --seed %d --count %d", "workloads": [' % (o.seed, o.count))
    print(",\n".join(json.dumps(e) for e in entries) + "\n]}")
