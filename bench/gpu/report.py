#!/usr/bin/env python3
"""Tables of what peers.py measured: rgen beside the libraries, predictions beside measurements, the chosen plan beside the best that was measured.

  report.py bench/results/DEVICE_DATE.LIST.json … [--rows] [--into docs/gpu_tables.md NAME]
"""
import argparse
import json
import math
import os
import statistics
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir), os.path.dirname(os.path.abspath(__file__))]
import document
import peers

FAMILIES = (("depthwise", ("depthwise", "dw_", "_dw")), ("convolution", ("conv",)), ("pooling", ("pool",)),
            ("elementwise", ("elementwise", "relu_64m", "mul_add", "bias_gelu_4", "bias_gelu_1", "transpose", "nchw2nhwc")), ("reduction", ("reduce", "sum")),
            ("rows", ("softmax", "norm")), ("attention", ("attention",)), ("mlp", ("mlp",)))


def family(name):
    for title, parts in FAMILIES:
        if any(part in name for part in parts):
            return title
    types = [t for t in ("tf32", "bf16", "f16", "s8") if t in name.split("_")]
    return "product " + (types[0] if types else "f32")


def figures(rows):
    """Ratios of the rows that ran: rival ÷ rgen, predicted ÷ measured, chosen ÷ best."""
    ran = [r for r in rows if peers.chosen(r)]
    us = lambda r: peers.chosen(r)["measured_us"]
    return ([min(r["rivals"].values()) / us(r) for r in ran if r["rivals"]], [peers.chosen(r)["predicted_us"] / us(r) for r in ran],
            [us(r) / peers.best_us(r) for r in ran], ran)


def line(title, rows):
    beside, predictions, regrets, ran = figures(rows)
    spread = math.exp(statistics.pstdev(map(math.log, predictions))) if len(predictions) > 1 else 1
    return [title, len(ran), f"{peers.mean(beside):.2f}" if beside else "", f"{min(beside):.2f} to {max(beside):.2f}" if beside else "",
            f"{peers.mean(predictions):.2f}", f"{spread:.2f}", f"{100 * sum(r <= 1.1 for r in regrets) / len(regrets):.0f} %"]


def summary(results):
    families = {}
    for r in results:
        if peers.chosen(r):
            families.setdefault(family(r["name"]), []).append(r)
    lines = [line(name, rows) for name, rows in sorted(families.items())]
    return document.table(["", "workloads", "rival ÷ rgen", "least to most", "predicted ÷ measured", "spread ×", "plan within 10 % of the best"],
                          lines + [line("**all**", results)])


def rows(results):
    lines = []
    for r in results:
        c = peers.chosen(r)
        if not c:
            continue
        rival = min(r["rivals"], key=r["rivals"].get, default=None)
        lines.append([r["name"], f"{c['measured_us']:.2f}", f"{c['predicted_us']:.2f}", rival or "", f"{r['rivals'][rival]:.2f}" if rival else "",
                      f"{r['rivals'][rival] / c['measured_us']:.2f}" if rival else "", f"{c['measured_us'] / peers.best_us(r):.2f}"])
    return document.table(["workload", "rgen µs", "predicted µs", "rival", "µs", "rival ÷ rgen", "chosen ÷ best plan"], lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", nargs="+", metavar="FILE")
    p.add_argument("--rows", action="store_true", help="every workload, not only families")
    p.add_argument("--markdown", metavar="FILE", help="where the tables go (default: standard output)")
    p.add_argument("--into", nargs=2, metavar=("FILE", "NAME"), help="or into a document, between <!-- NAME --> and <!-- end -->")
    options = p.parse_args()
    text = []
    for path in options.results:
        with open(path) as f:
            measured = json.load(f)
        done = measured["results"]
        checked = [q["verified"] for r in done for q in r.get("plans", []) if "verified" in q]
        _, predictions, _, ran = figures(done)
        rank = peers.spearman([peers.chosen(r)["predicted_us"] for r in ran], [peers.chosen(r)["measured_us"] for r in ran])
        text.append(f"{measured['device']}, {measured['date']}, PyTorch {measured['peers']['torch']}, cuDNN {measured['peers']['cudnn']}: "
                    f"{os.path.basename(path).split('.')[-2]}, {sum(checked)} of {len(checked)} plans right; rank correlation of predictions {rank:.2f}")
        text.append((rows if options.rows else summary)(done))
    document.write("\n\n".join(text), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
