#!/usr/bin/python3
"""Prints the figures by which we compare our code with the code bases that we take as models.

    scripts/measure_code.py                      this tree
    scripts/measure_code.py --before TREE        another checkout of it beside this one
    scripts/measure_code.py --before TREE -o json

Trust differences of 20 %, not of 2 %: the sources are read by patterns, not by a compiler. `model` is
what we aim at: the range of LevelDB, Reverb, TensorPipe, LogCabin, Scylla's raft and TigerBeetle where
they were counted in the same way, nothing where they were not.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

import check_classes
import check_sizes

ROOT = pathlib.Path(__file__).resolve().parent.parent
DUPLICATE_LINES = 6
# Folders of machines: their .cc files give the reasons for an ordering.
# Folders of machines, today's and those of trees before they were moved.
MACHINES = {"lockstep/" + name for name in (
    "coord", "dispatch", "rendezvous", "tcpstore", "data/dispatch", "data/consumer", "stock/tcpstore",
    "launch/node_group")}
ASSERTION = re.compile(r"\b(LOCKSTEP_D?CHECK|static_assert|ABSL_DCHECK|assert)\s*\(")
ANNOTATION = re.compile(r"\bABSL_(GUARDED_BY|PT_GUARDED_BY|EXCLUSIVE_LOCKS_REQUIRED|"
                        r"SHARED_LOCKS_REQUIRED|LOCKS_EXCLUDED|ACQUIRED_\w+|ASSERT_\w*LOCK|"
                        r"EXCLUSIVE_LOCK_FUNCTION|UNLOCK_FUNCTION|SCOPED_LOCKABLE)\b")

# figure: (unit, model)
MODELS = {
    "classes over 25 methods or 12 data members": ("", "1 a code base"),
    "methods of the largest class": ("", "45"),
    "data members of the largest class": ("", "41"),
    "methods of a class, 90th percentile": ("", "13 to 32"),
    "lines of a function, 90th percentile": ("", "29 to 59"),
    "functions over 70 lines": ("", "2 to 7 %"),
    "assertions": ("a kloc", "10 to 86"),
    "lock annotations": ("a kloc", "4 to 16"),
    "std::mutex without annotations": ("", "0"),
    "comments in headers": ("of lines", ".32 to .65"),
    "comments in machines' .cc": ("of lines", ".08 to .22"),
    "comments in other .cc": ("of lines", ".08 to .22"),
    "public methods that have a comment": ("%", "73 to 82"),
    "lines in duplicates of six lines or more": ("%", ""),
    "files that name the request ListBarriers": ("", "16, our own aim"),
    "files that name the request MaxKey": ("", ""),
    "lines of C++, tests apart": ("", ""),
}


def production_sources(tree):
    for path in sorted([*(tree / "include").rglob("*"), *(tree / "lockstep").rglob("*")]):
        name = path.relative_to(tree).as_posix()
        if path.suffix in (".h", ".cc") and not check_classes.is_for_tests(name):
            yield name, path.read_text()


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0


def count_lines(text):
    """(lines of code, lines that are a comment and nothing else)."""
    comments = sum(1 for line in text.splitlines() if line.lstrip().startswith("//"))
    code = sum(1 for line in text.splitlines()
               if line.strip() and not line.lstrip().startswith("//"))
    return code, comments


def duplicated_lines(sources):
    """How many lines stand in a run of DUPLICATE_LINES that stands somewhere else, too."""
    seen = collections.defaultdict(list)
    for name, text in sources:
        lines = [(number, line.strip()) for number, line in enumerate(text.splitlines())
                 if len(line.strip()) > 3 and not line.startswith(("#include", "namespace", "//"))]
        for first in range(len(lines) - DUPLICATE_LINES + 1):
            window = lines[first:first + DUPLICATE_LINES]
            seen[tuple(line for _, line in window)].append((name, [n for n, _ in window]))
    twice = {(name, number) for places in seen.values() if len(places) > 1
             for name, numbers in places for number in numbers}
    return len(twice)


def access_by_line(text):
    """For each line, what a declaration that begins there belongs to: "public" or "private" of the class
    around it, or "" outside of class bodies, within functions included."""
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group()),
                  check_sizes.blank_literals_and_comments(text), flags=re.MULTILINE)
    scopes, told, start = [], [], 0
    for position, character in enumerate(code):
        if character == "\n":
            told.append(scopes[-1] if scopes else "")
        elif character == "{":
            head = code[start:position].strip()
            plain = re.sub(r"^template\s*<.*?>\s*(?=class|struct)", "", head, flags=re.DOTALL)
            is_class = check_classes.CLASS_HEAD.match(plain) and "" not in scopes
            if not re.match(r"(?:inline\s+)?namespace\b", head):
                scopes.append(("public" if plain.startswith("struct") else "private") if is_class else "")
            else:
                scopes.append("namespace")
            start = position + 1
        elif character == "}":
            del scopes[-1:]
            start = position + 1
        elif character == ";":
            start = position + 1
        elif character == ":" and scopes and scopes[-1] in ("public", "private"):
            label = re.search(r"\b(public|private|protected)\s*$", code[start:position])
            if label:
                scopes[-1] = "public" if label.group(1) == "public" else "private"
                start = position + 1
    return ["", *told]


def commented_public_methods(sources):
    """(with a comment above or behind, all) of the methods in public parts of headers' classes."""
    with_comment = total = 0
    for name, text in sources:
        if not name.endswith(".h"):
            continue
        access, above = access_by_line(text), False
        for line, belongs in zip(text.splitlines(), access):
            bare = line.strip()
            if belongs == "public" and re.match(r"  +[\w\[].*\w\(", line) and not re.search(
                    r"= (default|delete)|\boperator\b|^\s*(explicit|friend|using|~)\b", line):
                total += 1
                with_comment += above or "//" in line
            above = bare.startswith("//") or (above and bare and not bare.endswith((";", "{", "}")))
    return with_comment, total


def files_with(tree, word):
    listing = subprocess.run(["git", "-C", str(tree), "grep", "-lEi", word.replace("_", "_?"),
                              "--", ":!scripts/measure_code.py"],
                             capture_output=True, text=True, check=False).stdout.split()
    return len(listing)


def ratio(part, whole):
    return f"{part / whole:.2f}".lstrip("0") if whole else "-"


def measure(tree):
    sources = list(production_sources(tree))
    found = check_classes.all_classes(tree)
    methods = [len(entry.methods) for entry in found if not entry.is_record]
    large = [e for e in found if e.figures[0] > check_classes.METHODS_MAX
             or e.figures[1] > check_classes.MEMBERS_MAX]
    functions = [lines for name, text in sources
                 for _, _, lines in check_sizes.cpp_functions(text)]
    counted = {name: count_lines(text) for name, text in sources}
    kloc = sum(code for code, _ in counted.values()) / 1000

    def comments(wanted):
        chosen = [figures for name, figures in counted.items() if wanted(name)]
        return ratio(sum(c for _, c in chosen), sum(code + c for code, c in chosen))

    def is_machine(name):
        return name.endswith(".cc") and name.rpartition("/")[0] in MACHINES

    text = "\n".join(check_sizes.blank_literals_and_comments(text) for _, text in sources)
    commented, public = commented_public_methods(sources)
    return {
        "classes over 25 methods or 12 data members": len(large),
        "methods of the largest class": max(methods),
        "data members of the largest class": max(e.figures[1] for e in found),
        "methods of a class, 90th percentile": percentile(methods, .9),
        "lines of a function, 90th percentile": percentile(functions, .9),
        "functions over 70 lines": sum(1 for lines in functions if lines > 70),
        "assertions": round(len(ASSERTION.findall(text)) / kloc, 1),
        "lock annotations": round(len(ANNOTATION.findall(text)) / kloc, 1),
        "std::mutex without annotations": len(re.findall(r"\bstd::(?:recursive_)?mutex \w+;", text)),
        "comments in headers": comments(lambda name: name.endswith(".h")),
        "comments in machines' .cc": comments(is_machine),
        "comments in other .cc": comments(
            lambda name: name.endswith(".cc") and not is_machine(name)),
        "public methods that have a comment": round(100 * commented / public),
        "lines in duplicates of six lines or more": round(
            100 * duplicated_lines(sources) / sum(code for code, _ in counted.values()), 1),
        "files that name the request ListBarriers": files_with(tree, "List_Barriers"),
        "files that name the request MaxKey": files_with(tree, "Max_Key"),
        "lines of C++, tests apart": round(kloc * 1000),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--before", type=pathlib.Path, help="another checkout to compare with")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    columns = {"after" if options.before else "now": measure(ROOT)}
    if options.before:
        columns = {"before": measure(options.before.resolve()), **columns}
    if options.output == "json":
        print(json.dumps(columns, indent=1))
        return 0
    print(f"{'':46}" + "".join(f"{name:>10}" for name in columns) + "  model")
    for figure, (unit, model) in MODELS.items():
        label = f"{figure}, {unit}" if unit else figure
        print(f"{label:46}" + "".join(f"{column[figure]:>10}" for column in columns.values())
              + f"  {model}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
