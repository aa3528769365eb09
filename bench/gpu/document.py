"""Tables of a document that scripts renew: the text between `<!-- NAME -->` and `<!-- end -->`."""
import re
import sys


def table(titles, rows):
    lines = ["| " + " | ".join(titles) + " |", "|" + " --- |" * len(titles)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def write(text, path=None, into=None, name=""):
    """To a file, into the place of that name in a document, or to standard output."""
    if into:
        with open(into) as f:
            document = f.read()
        place = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(\n<!-- end -->)", re.S)
        if not place.search(document):
            sys.exit(f"{into} has no <!-- {name} --> … <!-- end -->")
        with open(into, "w") as f:
            f.write(place.sub(lambda found: found[1] + text + found[2], document, count=1))
    elif path:
        with open(path, "w") as f:
            f.write(text + "\n")
    else:
        print(text)
