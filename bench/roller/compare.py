#!/usr/bin/env python3
"""Predicted beside published times of the operators of Roller's evaluation.

rgen predict --hw v100 --json bench/roller/workloads.json | bench/roller/compare.py bench/roller/workloads.json --worst 10"""
import argparse
import json
import math
import sys

FAMILIES = {"C": "convolution", "D": "depthwise", "E": "elementwise", "M": "product", "P": "pooling", "R": "reduction"}
# the fastest published: of the library, TVM, Ansor and Roller
PUBLISHED = {"roller": "best of Roller's ten", "library": "library", "fastest": "fastest published"}


def ranks(values):
    """Equal values share the mean of their places."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    rank = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for i in order[start:end]:
            rank[i] = (start + end - 1) / 2
        start = end
    return rank


def spearman(a, b):
    a, b = ranks(a), ranks(b)
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    covariance = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b))
    return covariance / math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def row(result, spec):
    times = spec["notes"]
    return {"name": spec["name"], "family": spec["family"], "bound": result["bound"], "construct_ms": result["construct_ms"],
            "predicted": result["predicted_us"] / 1e3, "library": times["library_ms"], "roller": times["roller_ten_ms"],
            "fastest": min(v for k, v in times.items() if k.endswith("_ms"))}


def summary(rows):
    groups = [("all", rows), ("without depthwise", [r for r in rows if r["family"] != "D"])]
    groups += [(FAMILIES[f], [r for r in rows if r["family"] == f]) for f in FAMILIES]
    print("| operators | | " + " | ".join(f"{title} | " for title in PUBLISHED.values()) + "|")
    print("| --- | --- |" + " --- | --- |" * len(PUBLISHED))
    for title, some in groups:
        if len(some) < 2:
            continue
        figures = [f"{spearman([r['predicted'] for r in some], [r[key] for r in some]):.3f} | {mean([r['predicted'] / r[key] for r in some]):.2f}"
                   for key in PUBLISHED]
        print(f"| {title} | {len(some)} | " + " | ".join(figures) + " |")


def worst(rows, count):
    print("| operator | predicted | Roller | library | fastest | ratio | bound |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for r in sorted(rows, key=lambda r: -abs(math.log(r["predicted"] / r["roller"])))[:count]:
        times = " | ".join(f"{r[k]:.3f}" for k in ("predicted", "roller", "library", "fastest"))
        print(f"| {r['name']} | {times} | {r['predicted'] / r['roller']:.2f} | {r['bound']} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", help="the specs with the published times in their notes")
    parser.add_argument("--predictions", default="-", help="output of rgen predict --json (default: standard input)")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="also the N operators farthest from the best of Roller's ten")
    options = parser.parse_args()
    with open(options.workloads) as f:
        specs = {e["name"]: e for e in json.load(f)}
    with sys.stdin if options.predictions == "-" else open(options.predictions) as f:
        rows = [row(r, specs[r["name"]]) for r in json.load(f)["results"]]
    construct = sorted(r["construct_ms"] for r in rows)
    print(f"{len(rows)} operators; construction: median {construct[len(rows) // 2]:.2f} ms, at most {construct[-1]:.2f} ms")
    print("Spearman correlation and geometric mean of predicted / published:\n")
    summary(rows)
    if options.worst:
        print("\nms, farthest from the best of Roller's ten first:\n")
        worst(rows, options.worst)


if __name__ == "__main__":
    main()
