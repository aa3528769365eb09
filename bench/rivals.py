#!/usr/bin/env python3
"""Our kernels beside the fastest correct rival of one run, as a page:  bench/rivals.py RESULTS.jsonl [--into docs/cpu_tables.md NAME]

RESULTS has a record a line for each workload, number of threads and contender: `workload family peer threads median_us overhead_us correct version note
ref_us`, the note with our `predicted N us`. A call's overhead is subtracted, half the time at most. Of limit: `rgen predict`'s roofline ÷ our time."""
import argparse
import collections
import json
import re
import statistics
import subprocess

import document


def read(path, fastest):
    """(workload, threads) → {contender: record}; the last record of each counts. `fastest`: of its rounds, too."""
    records = collections.defaultdict(dict)
    with open(path) as f:
        for line in f:
            r = json.loads(line)
            if "median_us" in r:
                if fastest:
                    r["median_us"] = min(r["rounds"])
                r["median_us"] = max(r["median_us"] - r.get("overhead_us", 0), r["median_us"] / 2)
            records[r["workload"], r["threads"]][r["peer"]] = r
    return records


def compare(contenders):
    """Ours, the rival's record, its time ÷ ours; nothing where nobody else has a result, or we have none that is right."""
    ours = contenders.get("rgen", {})
    rivals = [r for name, r in contenders.items() if name != "rgen" and r.get("correct")]
    if not ours.get("correct") or not rivals:
        return None
    rival = min(rivals, key=lambda r: r["median_us"])
    return ours, rival, rival["median_us"] / ours["median_us"]


def limits(options, threads):
    command = [options.rgen, "predict", "--hw", options.hw, "--threads", str(threads), "--json", options.workloads]
    return {r["name"]: r["limit_us"] for r in json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["results"]}


def spread(values, share):
    return sorted(values)[int(share * (len(values) - 1))]


def summary(records, compared):
    references = [us for peers in records.values() for r in peers.values() for us in r.get("ref_us", [])]
    versions = sorted({f"{name} {r['version']}" for peers in records.values() for name, r in peers.items() if r.get("version")})
    errors = []
    for (ours, _, _) in compared.values():
        predicted = re.search(r"predicted ([0-9.e+-]+) us", ours.get("note", ""))
        if predicted:
            errors.append(abs(float(predicted[1]) / ours["median_us"] - 1))
    lines = [f"Contenders: {', '.join(versions)}."]
    if references:
        lines.append(f"A reference kernel of {statistics.median(references):.0f} µs beside every round took {spread(references, 0.1):.0f} to "
                     f"{spread(references, 0.9):.0f} from the 10th to the 90th percentile.")
    if errors:
        lines.append(f"Predicted against measured: median error {100 * statistics.median(errors):.1f} %, 90th percentile {100 * spread(errors, 0.9):.0f} %.")
    wins = collections.Counter(rival["peer"] for _, rival, _ in compared.values())
    lines.append("The fastest rival was " + ", ".join(f"{name} {n}" for name, n in wins.most_common()) + " times.")
    return "\n".join(lines)


def families(compared, threads):
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for (workload, t), (ours, _, ratio) in compared.items():
        for name in (ours["family"], "all"):
            groups[name][t].append(ratio)
    rows = []
    for name in [n for n in groups if n != "all"] + ["all"]:
        row = [name, max(len(r) for r in groups[name].values())]
        for t in threads:
            ratios = groups[name][t]
            row += [f"{statistics.geometric_mean(ratios):.2f}", f"{min(ratios):.2f}"] if ratios else ["–", "–"]
        rows.append(row)
    titles = ["family", "entries"] + [x for t in threads for x in (f"{t} thread{'s' * (t > 1)}", "worst")]
    return document.table(titles, rows)


def workloads(compared, threads, options):
    limit = {t: limits(options, t) for t in threads}
    rows = []
    for name in dict.fromkeys(workload for workload, _ in compared):
        row = [name]
        for t in threads:
            if (name, t) not in compared:
                row += ["–"] * 5
                continue
            ours, rival, ratio = compared[name, t]
            share = f"{100 * limit[t][name] / ours['median_us']:.0f} %" if name in limit[t] else "–"
            row += [f"{ours['median_us']:.4g}", rival["peer"], f"{rival['median_us']:.4g}", f"{ratio:.2f}", share]
        rows.append(row)
    titles = ["workload"]
    for t in threads:
        titles += [f"{t} thread{'s' * (t > 1)}: ours µs", "rival", "its µs", "ratio", "of limit"]
    return document.table(titles, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results")
    parser.add_argument("--hw", default="host", help="the profile that was planned for (default: %(default)s)")
    parser.add_argument("--workloads", default="tests/data/workloads.json", help="specs of the results (default: %(default)s)")
    parser.add_argument("--fastest", action="store_true", help="each contender's fastest round, not the median of its rounds")
    parser.add_argument("--summary-only", action="store_true", help="no table of the workloads")
    document.add_output(parser)
    options = parser.parse_args()
    records = read(options.results, options.fastest)
    compared = {key: found for key, peers in records.items() if (found := compare(peers))}
    threads = sorted({t for _, t in compared})
    parts = [summary(records, compared), families(compared, threads)]
    if not options.summary_only:
        parts.append(workloads(compared, threads, options))
    document.write("\n\n".join(parts), options)


if __name__ == "__main__":
    main()
