"""What tools/coverage prints: gcov's JSON on stdin, one document a line; the tree as argument."""

import json
import os
import sys

FLOORS = "tests/inside/floors.txt"


class File:
    def __init__(self):
        self.lines = {}  # number -> count
        self.branches = {}  # (line, index) -> count

    def add(self, line):
        number = line["line_number"]
        self.lines[number] = line["count"] + self.lines.get(number, 0)
        for i, branch in enumerate(line["branches"]):
            key = (number, i)
            self.branches[key] = self.branches.get(key, 0) + branch["count"]


def read_counters(root):
    files = {}
    for document in sys.stdin:
        for entry in json.loads(document)["files"]:
            name = os.path.relpath(os.path.join(root, entry["file"]), root)
            if name.startswith("src/") and name.endswith(".c"):
                for line in entry["lines"]:
                    files.setdefault(name, File()).add(line)
    return files


def read_floors(root):
    with open(os.path.join(root, FLOORS), encoding="utf-8") as source:
        pairs = [line.split() for line in source if line.strip() and not line.startswith("#")]
    return {name: int(percent) for name, percent in pairs}


def reached(counts):
    """(how many, of how many, percent)"""
    some = sum(count > 0 for count in counts)
    return some, len(counts), 100.0 * some / len(counts) if counts else 100.0


def show(name, some):
    text = f"{name:<28}"
    for counts in (
        [count for file in some for count in file.lines.values()],
        [count for file in some for count in file.branches.values()],
    ):
        number, of, percent = reached(counts)
        text += f" {percent:6.1f} %  {number:5} of {of:5}  "
    print(text.rstrip())


def print_table(files):
    print(f"{'':<28} {'lines':>23}   {'branches':>23}")
    for folder in sorted({os.path.dirname(name) for name in files}):
        inside = [name for name in sorted(files) if os.path.dirname(name) == folder]
        show(folder, [files[name] for name in inside])
        for name in inside:
            show("  " + os.path.basename(name), [files[name]])
    show("all", list(files.values()))


def complaints(files, floors):
    for name in sorted(files.keys() | floors.keys()):
        if name not in floors:
            yield f"{name} has no floor in {FLOORS}"
        elif name not in files:
            yield f"{name} has a floor in {FLOORS}, and no counters"
        else:
            percent = reached(files[name].lines.values())[2]
            if percent < floors[name]:
                yield f"{name} has {percent:.1f} % of its lines, below its floor of {floors[name]} %"


def main():
    root = sys.argv[1]
    files = read_counters(root)
    print_table(files)
    failures = list(complaints(files, read_floors(root)))
    print("\n".join(failures + ["coverage: " + (f"{len(failures)} complaints" if failures else "good")]))
    return 1 if failures or not files else 0


sys.exit(main())
