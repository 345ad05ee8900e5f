"""What tools/coverage prints: gcov's JSON on stdin, one document a line; the tree as argument."""

import json
import os
import sys

FLOOR = 95.0
STRICT = ("src/mode/", "src/keep/", "src/db/errors.c")
LISTED = STRICT + ("src/migrate/", "src/api/")
LIST = "tests/inside/uncovered.txt"


class File:
    def __init__(self):
        self.lines = {}  # number -> (count, function)
        self.branches = {}  # (line, index) -> count

    def add(self, line):
        number = line["line_number"]
        count = line["count"] + self.lines.get(number, (0, ""))[0]
        self.lines[number] = (count, line.get("function_name", ""))
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


def read_list(root):
    """Lines "file: function: the line's text": not reached, and why is said above them."""
    with open(os.path.join(root, LIST), encoding="utf-8") as source:
        return {line.strip() for line in source if line.strip() and not line.startswith("#")}


def part(reached, of):
    return 100.0 * reached / of if of else 100.0


def totals(some):
    lines = [count for file in some for count, _ in file.lines.values()]
    branches = [count for file in some for count in file.branches.values()]
    return (sum(c > 0 for c in lines), len(lines), sum(c > 0 for c in branches), len(branches))


def show(name, some):
    lines, all_lines, branches, all_branches = totals(some)
    print(
        f"{name:<28} {part(lines, all_lines):6.1f} %  {lines:5} of {all_lines:5}"
        f"   {part(branches, all_branches):6.1f} %  {branches:5} of {all_branches:5}"
    )


def print_table(files):
    print(f"{'':<28} {'lines':>23}   {'branches':>23}")
    folders = sorted({os.path.dirname(name) for name in files})
    for folder in folders:
        inside = [name for name in sorted(files) if os.path.dirname(name) == folder]
        show(folder, [files[name] for name in inside])
        for name in inside:
            show("  " + os.path.basename(name), [files[name]])
    show("all", list(files.values()))


def not_reached(root, files):
    for name in sorted(files):
        if not name.startswith(LISTED):
            continue
        with open(os.path.join(root, name), encoding="utf-8") as source:
            text = source.read().split("\n")
        for number, (count, function) in sorted(files[name].lines.items()):
            if count == 0:
                yield name, number, f"{name}: {function}: {text[number - 1].strip()}"


def main():
    root = sys.argv[1]
    files = read_counters(root)
    known = read_list(root)
    failures = 0
    print_table(files)
    for strict in STRICT:
        lines, all_lines, _, _ = totals([f for n, f in files.items() if n.startswith(strict)])
        if not all_lines or part(lines, all_lines) < FLOOR:
            print(f"below {FLOOR:.0f} % of lines: {strict}")
            failures += 1
    for name, number, line in not_reached(root, files):
        if line in known:
            continue
        print(f"not reached, and not in {LIST}: {number}: {line}")
        failures += 1
    print("coverage: " + (f"{failures} complaints" if failures else "good"))
    return 1 if failures or not files else 0


sys.exit(main())
