#!/usr/bin/env python3
"""A table of regrets, worst first, for the documentation:  rgen-regret FILE --json | table.py [--rows N]"""
import argparse
import json
import sys

o = argparse.ArgumentParser(description=__doc__)
o.add_argument("--rows", type=int, default=1000, help="of the table; the summary is of all")
o = o.parse_args()
d = json.load(sys.stdin)
rows = sorted(d["results"], key=lambda r: -r["regret"])
regrets = [r["regret"] for r in rows]
mean = sum(r["rank_correlation"] for r in rows) / len(rows)
print(f"{len(rows)} workloads, {d['threads']} thread{'s' * (d['threads'] > 1)}, {sum(len(r['plans']) for r in rows)} plans measured: the chosen plan within 10 % of the best for "
      f"{d['within_10_percent']:.0f} % of them, the best of the first five within 3 % for {d['top5_within_3_percent']:.0f} %; median regret "
      f"{regrets[len(regrets) // 2]:.3f}, mean rank correlation {mean:.2f}.\n")
print("| workload | space | chosen µs | best µs | regret | first five | ρ |\n| --- | --- | --- | --- | --- | --- | --- |")
for r in rows[: o.rows]:
    print(f"| {r['name']} | {r['space']} | {r['chosen_us']:.4g} | {r['best_us']:.4g} | {r['regret']:.3f} | {r['top5']:.3f} | {r['rank_correlation']:.2f} |")
