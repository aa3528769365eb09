"""What scripts that make tables share: options, the page, and the place in a document that it renews (`<!-- NAME -->` to `<!-- end -->`)."""
import json
import re
import sys


def load_specs(path):
    """The list of specs in a file: an array, or an object's `workloads`."""
    with open(path) as f:
        specs = json.load(f)
    return specs["workloads"] if isinstance(specs, dict) else specs


def table(titles, rows):
    lines = ["| " + " | ".join(titles) + " |", "|" + " --- |" * len(titles)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def add_output(parser):
    """Of every such script."""
    parser.add_argument("--rgen", default="build/release/bin/rgen", help="the command (default: %(default)s)")
    parser.add_argument("--markdown", metavar="FILE", help="where the tables go (default: standard output)")
    parser.add_argument("--into", nargs=2, metavar=("FILE", "NAME"), help="or into a document, between <!-- NAME --> and <!-- end -->")


def add_options(parser, run, line):
    """Of those that `publish`. `run` is what a table is of, `line` what a line of the summary is of."""
    add_output(parser)
    parser.add_argument("--compact", action="store_true", help=f"one table for all {run}s, of fewer columns")
    parser.add_argument("--summary-only", action="store_true", help=f"a line for each {line}, no tables")
    parser.add_argument("--json", metavar="FILE", help="also everything as JSON")


def publish(groups, options, summary, markdown, compact):
    """Groups of runs, each with its `rows`, as the options want them: a summary and a table of each run, or a compact table of each group."""
    short = options.compact or options.summary_only
    sections = []
    for runs in groups:
        sections += ["- " + summary(run) if short else f"{summary(run)}\n\n{markdown(run['rows'])}" for run in runs]
        if options.compact:
            sections.append("\n" + compact(runs))
    write(("\n" if short else "\n\n").join(sections), options)
    if options.json:
        with open(options.json, "w") as f:
            json.dump([run for runs in groups for run in runs], f, indent=1)


def write(text, options):
    """To a file, into the place of that name in a document, or to standard output."""
    if options.into:
        path, name = options.into
        with open(path) as f:
            document = f.read()
        place = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(\n<!-- end -->)", re.S)
        if not place.search(document):
            sys.exit(f"{path} has no <!-- {name} --> … <!-- end -->")
        with open(path, "w") as f:
            f.write(place.sub(lambda found: found[1] + text + found[2], document, count=1))
    elif options.markdown:
        with open(options.markdown, "w") as f:
            f.write(text + "\n")
    else:
        print(text)
