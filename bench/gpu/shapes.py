#!/usr/bin/env python3
"""Specs of what GPUs are used for: products of every type, square, skinny, odd and fused; half-precision convolutions, rows and attention.

  shapes.py [products|skinny|fused|layers] > specs.json
"""
import json
import sys

from heuristics import SHAPES, spec


def products():
    """Every type that cuBLAS has; f32 up to 4096."""
    specs = []
    for dtype in ("bf16", "f16", "s8", "tf32", "f32"):
        for m, n, k in SHAPES:
            if dtype not in ("bf16", "f16") and m * n * k > 1 << 36:
                continue
            if dtype in ("f16", "s8", "tf32") and (m, n, k) in SHAPES[6:16]:
                continue
            specs.append(spec(f"{dtype}_{m}x{n}x{k}", dtype, m, n, k, 1))
    return specs


def skinny():
    """Few rows (a decoder's), few columns, short and long sums, odd lengths."""
    shapes = ((1, 4096, 4096), (1, 11008, 4096), (4, 4096, 4096), (8, 4096, 14336), (32, 8192, 2048), (200, 1024, 4096), (1024, 200, 4096),
              (1280, 320, 5120), (2048, 256, 8192), (8192, 64, 1024), (64, 64, 8192), (96, 12288, 512), (4096, 4096, 64), (3000, 3000, 200),
              (640, 640, 640), (333, 777, 1111), (513, 513, 4096))
    return [spec(f"bf16_{m}x{n}x{k}", "bf16", m, n, k, 1) for m, n, k in shapes]


def fused():
    """Epilogues in the product, which a library runs as kernels of their own."""
    specs = []
    for dtype in ("bf16", "f32"):
        for m, n, k in ((4096, 4096, 4096), (512, 3072, 768), (1000, 1000, 1000), (64, 4096, 4096), (2048, 11008, 4096), (777, 1304, 520)):
            if dtype == "f32" and m * n * k > 1 << 36:
                continue
            for chain in (["bias", "relu"], ["bias", "gelu_erf", "add"]):
                s = spec(f"{dtype}_{m}x{n}x{k}_{'_'.join(chain)}", dtype, m, n, k, 1)
                specs.append(s | {"epilogue": chain})
    return specs


def conv(dtype, n, h, ci, co, r, stride=1, groups=1):
    params = {"n": n, "h": h, "w": h, "ci": ci, "co": co, "r": r, "s": r, "stride": stride, "pad": r // 2, "layout": "NHWC", "groups": groups}
    name = f"{dtype}_conv_{n}x{h}x{h}x{ci}_{co}_{r}x{r}" + (f"s{stride}" if stride > 1 else "") + ("_dw" if groups > 1 else "")
    return {"name": name, "op": "conv2d", "dtype": dtype, "params": params, "epilogue": ["bias", "relu"]}


def layers():
    """Convolutions, rows and copies at sizes that fill a GPU."""
    specs = [conv("f16", 32, *s) for s in ((56, 64, 64, 1), (56, 64, 64, 3), (56, 64, 256, 1), (28, 128, 128, 3), (14, 256, 256, 3), (7, 512, 512, 3),
                                          (56, 256, 512, 1, 2), (224, 3, 64, 7, 2))]
    specs += [conv("f32", 32, *s) for s in ((56, 64, 64, 3), (28, 128, 128, 3), (112, 32, 32, 3, 1, 32))]
    specs.append(conv("f16", 32, 56, 144, 144, 3, 1, 144))
    for dtype in ("f16", "f32"):
        for rows, columns in ((4096, 1024), (8192, 4096), (65536, 128), (2048, 32768)):
            for op in ("softmax", "layernorm", "rmsnorm"):
                specs.append({"name": f"{dtype}_{op}_{rows}x{columns}", "op": op, "dtype": dtype, "params": {"shape": [rows, columns]}})
    for dtype in ("f16", "f32"):
        specs.append({"name": f"{dtype}_relu_64m", "op": "relu", "dtype": dtype, "params": {"shape": [1 << 26]}})
        specs.append({"name": f"{dtype}_mul_add_64m", "op": "mul_add", "dtype": dtype, "params": {"shape": [1 << 26]}})
        specs.append({"name": f"{dtype}_transpose_8192", "op": "transpose", "dtype": dtype, "params": {"shape": [8192, 8192], "perm": [1, 0]}})
        specs.append({"name": f"{dtype}_bias_gelu_16384x4096", "op": "bias_act", "dtype": dtype, "params": {"shape": [16384, 4096]},
                      "epilogue": ["bias", "gelu_erf"]})
        for axis in (0, 1):
            specs.append({"name": f"{dtype}_sum{axis}_8192", "op": "reduce_sum", "dtype": dtype, "params": {"shape": [8192, 8192], "axis": axis}})
        specs.append({"name": f"{dtype}_attention_12x1024x64", "op": "attention", "dtype": dtype, "params": {"heads": 12, "seq": 1024, "dim": 64}})
    return specs


if __name__ == "__main__":
    lists = {"products": products, "skinny": skinny, "fused": fused, "layers": layers}
    wanted = sys.argv[1:] or list(lists)
    if set(wanted) - set(lists):
        sys.exit(__doc__)
    print(json.dumps([s for name in wanted for s in lists[name]()], indent=1))
