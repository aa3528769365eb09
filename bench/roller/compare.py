#!/usr/bin/env python3
"""Predicted against published times of Roller's operators:  rgen predict --hw v100 --json workloads.json | compare.py workloads.json"""
import json
import math
import sys

specs = {e["name"]: e for e in json.load(open(sys.argv[1]))}
results = json.load(sys.stdin)["results"]


def ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    rank = [0.0] * len(values)
    for position, i in enumerate(order):
        rank[i] = position
    return rank


def spearman(a, b):
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(ranks(a), ranks(b))) / (n * (n * n - 1))


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


rows = []
for r in results:
    e = specs[r["name"]]
    rows.append((r["name"], e["family"], r["predicted_us"] / 1e3, e["notes"]["library_ms"], e["notes"]["roller_ten_ms"], r["bound"], r["construct_ms"]))
print(f"{len(rows)} operators; construction: median {sorted(r[6] for r in rows)[len(rows) // 2]:.2f} ms, at most {max(r[6] for r in rows):.2f} ms")
for title, of in (("library", 3), ("best of Roller's ten", 4)):
    print(f"{title:22} Spearman {spearman([r[2] for r in rows], [r[of] for r in rows]):.3f}; predicted / published, geometric mean "
          f"{mean([r[2] / r[of] for r in rows]):.2f};",
          ", ".join(f"{f} {mean([r[2] / r[of] for r in rows if r[1] == f]):.2f}" for f in sorted({r[1] for r in rows})))
print("farthest from the best of Roller's ten:")
for r in sorted(rows, key=lambda r: -abs(math.log(r[2] / r[4])))[:10]:
    print(f"  {r[0]:50} predicted {r[2]:8.3f} ms, published {r[4]:8.3f} (library {r[3]:.3f}), ratio {r[2] / r[4]:.2f}, bound by {r[5]}")
