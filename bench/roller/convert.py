#!/usr/bin/env python3
"""The 119 operators of Roller's evaluation (OSDI 2022, batch 128) as specs:  convert.py TABLE.tsv > workloads.json

The table's columns: id, expression, loop shape, name, and times in ms on a V100 of cuDNN/cuBLAS (through TensorFlow), TVM, Ansor,
Roller's first plan and the best of Roller's first ten. The times go into each entry's `notes`."""
import csv
import json
import re
import sys

CONV = re.compile(r"S(\d)D(\d)P(\d)$")


def entry(row):
    kind, shape = row["expr"], [int(x) for x in row["loop_shape"].split()]
    log = [int(x) for x in re.findall(r"_(\d+)", row["log_name"])]
    e = {"name": row["log_name"], "dtype": "f32"}
    if kind.startswith(("fused_conv", "depthwise")):
        stride, dilation, pad = map(int, CONV.search(kind).groups())
        depthwise = kind.startswith("depthwise")
        n, co = shape[0], shape[1]
        h, w = log[2], log[3]
        ci, (r, s) = (co, shape[-2:]) if depthwise else (shape[4], shape[-2:])
        if (h + 2 * pad - dilation * (r - 1) - 1) // stride + 1 < shape[2]:  # C38: the expression takes an input that is padded already
            pad = ((shape[2] - 1) * stride + dilation * (r - 1) + 1 - h + 1) // 2
        e |= {"op": "conv2d", "params": {"n": n, "h": h, "w": w, "ci": ci, "co": co, "r": r, "s": s, "stride": stride, "pad": pad,
                                         "dilation": dilation, "groups": ci if depthwise else 1, "layout": "NCHW"}}
    elif kind == "matmul_expr":
        e |= {"op": "matmul", "params": dict(zip("mnk", shape))}
    elif kind.startswith("avgpool"):
        stride, pad = map(int, re.search(r"S(\d)P(\d)$", kind).groups())
        e |= {"op": "avgpool", "params": {"n": log[0], "c": log[1], "h": log[2], "w": log[3], "r": shape[3], "s": shape[4], "stride": stride,
                                          "pad": pad, "layout": "NCHW"}}
    elif kind == "reduce_expr2":
        e |= {"op": "reduce_sum", "params": {"shape": shape, "axis": 1}}
    elif kind == "relu_expr":
        e |= {"op": "relu", "params": {"shape": shape}}
    else:
        sys.exit(f"no rule for {kind}")
    e["family"] = row["id"][0]
    e["notes"] = {k: float(row[c]) for k, c in (("library_ms", "TF_cudalib_ms"), ("tvm_ms", "TVM_ms"), ("ansor_ms", "Ansor_ms"),
                                               ("roller_first_ms", "RollerTop1_ms"), ("roller_ten_ms", "RollerTop10_ms")) if row[c]}
    return e


with open(sys.argv[1]) as table:
    print(json.dumps([entry(row) for row in csv.DictReader(table, delimiter="\t")], indent=0).replace("{\n", "{").replace(",\n\"", ", \""))
