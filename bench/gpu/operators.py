"""The preset operators in PyTorch, on a kernel's own inputs: the reference that it is verified against, and the ways in which a library computes it.

`operator(torch, spec, tensors)` gives `(reference, rivals)`: a function whose result has the shape of `out`, in at least f32, and functions by name.
Constants are brought into the layout that the library likes best beforehand. The rivals of an operator that PyTorch has not are {}.
"""
import math


def _activations(f, torch):
    return {"relu": f.relu, "relu6": f.relu6, "silu": f.silu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "hardswish": f.hardswish,
            "gelu_erf": f.gelu, "gelu_tanh": lambda x: f.gelu(x, approximate="tanh")}


def _epilogue(torch, chain, tensors, dtype, view=None):
    """The chain as one function of the result, in `dtype`. `view`: the bias's shape, where its axis is not the last."""
    steps = []
    for name in chain:
        if name in ("bias", "add", "mul"):
            operand = tensors[{"bias": "bias", "add": "addend", "mul": "factor"}[name]].to(dtype)
            if name == "bias" and view:
                operand = operand.view(view)
            steps.append((lambda x, o=operand: x * o) if name == "mul" else (lambda x, o=operand: x + o))
        else:
            steps.append(_activations(torch.nn.functional, torch)[name])

    def apply(x):
        for step in steps:
            x = step(x)
        return x

    return apply


def _matmul(torch, spec, t):
    p, chain = spec["params"], spec.get("epilogue", [])
    a, b = t["A"], t["B"]
    if p.get("transpose_a"):
        a = a.transpose(-1, -2)
    if p.get("transpose_b"):
        b = b.transpose(-1, -2)
    if spec["dtype"] in ("s8", "u8"):
        reference = lambda: torch.matmul(a.double(), b.double())
        if chain or a.dim() != 2 or p["m"] <= 16 or p["k"] % 8 or p["n"] % 8:
            return reference, {}
        columns = b.t().contiguous().t()
        return reference, {"cuBLASLt": lambda: torch._int_mm(a, columns)}
    wide = torch.float64 if a.numel() * p["n"] < 1 << 38 else torch.float32
    end, exact_end = _epilogue(torch, chain, t, a.dtype), _epilogue(torch, chain, t, wide)
    rivals = {"cuBLAS": lambda: end(torch.matmul(a, b))}
    if a.dim() == 2:
        columns = b.t().contiguous().t()
        rivals["cuBLAS, B transposed"] = lambda: end(torch.matmul(a, columns))
        if chain[:1] == ["bias"]:
            bias, rest = t["bias"].to(a.dtype), _epilogue(torch, chain[1:], t, a.dtype)
            rivals["cuBLAS, bias"] = lambda: rest(torch.addmm(bias, a, b))
            if chain == ["bias", "relu"]:
                rivals["cuBLASLt, epilogue"] = lambda: torch._addmm_activation(bias, a, b, use_gelu=False)
    return lambda: exact_end(torch.matmul(a.to(wide), b.to(wide))), rivals


def _conv2d(torch, spec, t):
    p, chain, f = spec["params"], spec.get("epilogue", []), torch.nn.functional
    nhwc = p.get("layout", "NHWC") == "NHWC"
    if isinstance(p.get("pad", 0), list):
        return None, {}
    x = t["X"].permute(0, 3, 1, 2) if nhwc else t["X"]
    w = t["W"].contiguous(memory_format=torch.channels_last) if nhwc else t["W"]
    how = (p.get("stride", 1), p.get("pad", 0), p.get("dilation", 1), p.get("groups", 1))
    out = (lambda y: y.permute(0, 2, 3, 1)) if nhwc else (lambda y: y)
    view = [1, -1, 1, 1]
    end = _epilogue(torch, chain, t, x.dtype, view)
    exact = torch.float32
    exact_end = _epilogue(torch, chain, t, exact, view)
    reference = lambda: out(exact_end(f.conv2d(x.to(exact), w.to(exact), None, *how)))
    rivals = {"cuDNN": lambda: out(end(f.conv2d(x, w, None, *how)))}
    if chain[:2] == ["bias", "relu"]:
        bias, rest = t["bias"].to(x.dtype), _epilogue(torch, chain[2:], t, x.dtype, view)
        pair = lambda v: v if isinstance(v, list) else [v, v]
        rivals["cuDNN, epilogue"] = lambda: out(rest(torch.cudnn_convolution_relu(x, w, bias, pair(how[0]), pair(how[1]), pair(how[2]), how[3])))
    elif chain[:1] == ["bias"]:
        bias, rest = t["bias"].to(x.dtype), _epilogue(torch, chain[1:], t, x.dtype, view)
        rivals["cuDNN, bias"] = lambda: out(rest(f.conv2d(x, w, bias, *how)))
    if p.get("r") == 1 and p.get("s", 1) == 1 and nhwc and how == (1, 0, 1, 1):
        rows, columns = t["X"].reshape(-1, p["ci"]), t["W"].reshape(p["co"], p["ci"]).t()
        last = _epilogue(torch, chain, t, x.dtype)
        rivals["cuBLAS"] = lambda: last(torch.matmul(rows, columns))
    return reference, rivals


def _pool(torch, spec, t):
    p, f = spec["params"], torch.nn.functional
    nhwc = p.get("layout", "NHWC") == "NHWC"
    x = t["X"].permute(0, 3, 1, 2) if nhwc else t["X"]
    out = (lambda y: y.permute(0, 2, 3, 1)) if nhwc else (lambda y: y)
    if spec["op"] == "gavgpool":
        run = lambda v: out(f.adaptive_avg_pool2d(v, 1))
    else:
        window = (p["r"], p.get("s", p["r"]))
        pool = f.max_pool2d if spec["op"] == "maxpool" else f.avg_pool2d
        run = lambda v: out(pool(v, window, p.get("stride", window), p.get("pad", 0)))
    return lambda: run(x.float()), {"PyTorch": lambda: run(x)}


def _rows(torch, spec, t):
    p, f, chain = spec["params"], torch.nn.functional, spec.get("epilogue", [])
    x, op, last = t["X"], spec["op"], spec["params"]["shape"][-1:]
    axis = tuple(p["axis"]) if isinstance(p.get("axis"), list) else p.get("axis", -1)
    chain = ["bias"] + chain if op == "bias_act" and "bias" not in chain else chain
    plain = {
        "mul_add": lambda c: torch.addcmul(c(t["Z"]), c(t["X"]), c(t["Y"])),
        "relu": lambda c: f.relu(c(x)),
        "transpose": lambda c: c(x).permute(p.get("perm", [1, 0])).contiguous(),
        "reduce_sum": lambda c: c(x).sum(axis),
        "reduce_max": lambda c: c(x).amax(axis),
        "reduce_mean": lambda c: c(x).mean(axis),
        "softmax": lambda c: f.softmax(c(x), -1),
        "layernorm": lambda c: f.layer_norm(c(x), last, c(t["gamma"]), c(t["beta"]), p.get("eps", 1e-5)),
        "rmsnorm": lambda c: f.rms_norm(c(x), last, c(t["gamma"]), p.get("eps", 1e-5)),
        "bias_act": None,
    }[op]
    if plain is None:
        ends = {d: _epilogue(torch, chain, t, d) for d in (x.dtype, torch.float32)}
        return lambda: ends[torch.float32](x.float()), {"PyTorch": lambda: ends[x.dtype](x)}
    constants = {v.data_ptr(): v.to(x.dtype) for v in t.values()}
    own = lambda v: constants[v.data_ptr()]
    return lambda: plain(lambda v: v.float()), {"PyTorch": lambda: plain(own)}


def _mlp(torch, spec, t):
    depth = len(spec["params"]["dims"]) - 1

    def run(x, c):
        for i in range(1, depth + 1):
            x = torch.addmm(c(t[f"b{i}"]), x, c(t[f"W{i}"]))
            if i < depth:
                x = torch.relu(x)
        return x

    return lambda: run(t["X"].double(), lambda v: v.double()), {"cuBLAS": lambda: run(t["X"], lambda v: v.to(t["X"].dtype))}


def _attention(torch, spec, t):
    scale = spec["params"].get("scale", 1 / math.sqrt(spec["params"]["dim"]))
    q, k, v = t["Q"], t["K"], t["V"]
    reference = lambda: torch.matmul(torch.softmax(torch.matmul(q.double(), k.double().transpose(-1, -2)) * scale, -1), v.double())
    unfused = lambda: torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * scale, -1), v)
    return reference, {"PyTorch SDPA": lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale), "cuBLAS": unfused}


_OPERATORS = {"matmul": _matmul, "conv2d": _conv2d, "maxpool": _pool, "avgpool": _pool, "gavgpool": _pool, "mlp": _mlp, "attention": _attention}


def operator(torch, spec, tensors):
    return _OPERATORS.get(spec["op"], _rows)(torch, spec, tensors)


def tolerance(spec, out_dtype, reduction):
    """Of ‖out − reference‖ ÷ ‖reference‖: half a unit of the result's type, and the sums' rounding (random, hence a root); tf32 rounds factors."""
    unit = {"f32": 2.0 ** -24, "f16": 2.0 ** -11, "bf16": 2.0 ** -8, "s32": 0, "s8": 0, "u8": 0}
    if unit[out_dtype] == 0:
        return 0.0
    factors = 2.0 ** -11 if spec.get("math") == "tf32" else unit["f32"]
    stages = 4 if spec["op"] in ("mlp", "attention") else 1  # what lies between products is rounded too
    return stages * unit[out_dtype] + 4 * factors + 16 * unit["f32"] * math.sqrt(reduction)
