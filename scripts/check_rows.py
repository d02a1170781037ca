#!/usr/bin/python3
"""Checks docs/conformance.md and its companions (preemptions, the rendezvous, ...) against the tests:
each row has a test that carries its number, or a reason why not.

Prints the rows without a test and why, then what is wrong; with --all, the tests of every row.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "docs" / "conformance.md", ROOT / "docs" / "conformance-preemption.md",
             ROOT / "docs" / "conformance-rendezvous.md", ROOT / "docs" / "conformance-data.md",
             ROOT / "docs" / "conformance-findings.md"]
# How many rows there are with each prefix, from 1 up.
COUNTS = {"": 133, "G": 16, "D": 21, "P": 28, "PG": 21, "PD": 23, "PK": 10, "R": 106,
          "S": 155, "SD": 25, "F": 20, "A": 14}
# Rows of what is not built yet need not be in a document.
GROWING = {"R", "S", "SD"}
ROWS = [f"{prefix}{n}" for prefix, count in COUNTS.items() for n in range(1, count + 1)]

ROW = re.compile(r"^\|\s*((?:P?[GDK]?|R|SD?|F|A)\d+)\s*\|\s*(.+?)\s*\|\s*(.+?)\s*\|$")
CPP_TEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
PYTHON_TEST = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)
# `Row083_...`, `Row81Compressed...`, `test_row_083_...`; `PreemptionGap04_...`,
# `test_preemption_gap_04_...`; `Finding07_...`, `test_use_a03_...`.
NUMBER = re.compile(r"^(?:test_)?((?:(?:preemption|rendezvous|dispatch)_?)?"
                    r"(?:row|defect|gap|killed)|finding|use_?a)_?0*(\d+)(?!\d)", re.IGNORECASE)
PREFIXES = {"row": "", "defect": "D", "preemptionrow": "P", "preemptiongap": "PG",
            "preemptiondefect": "PD", "preemptionkilled": "PK",
            "finding": "F", "usea": "A", "rendezvousrow": "R", "dispatchrow": "S", "dispatchdefect": "SD"}


def tests_in(name, text):
    """Yields the tests that a file defines, as Suite.Name or file.py::name."""
    if name.endswith(".py"):
        for test in PYTHON_TEST.findall(text):
            yield f"{name}::{test}", test
    else:
        for suite, test in CPP_TEST.findall(text):
            yield f"{suite}.{test}", test


def row_of(test):
    """The row that a test carries in its name, or None."""
    match = NUMBER.match(test)
    prefix = PREFIXES.get(match.group(1).lower().replace("_", "")) if match else None
    return None if prefix is None else prefix + match.group(2)


def all_tests():
    """All tests by full name, and the names of those that carry a row, by row."""
    known, by_row = set(), collections.defaultdict(list)
    files = [*(ROOT / "lockstep").rglob("*_test.cc"), *(ROOT / "tests").rglob("*_test.cc"),
             *(ROOT / "tests").rglob("test_*.py")]
    for path in sorted(files):
        for full, test in tests_in(path.relative_to(ROOT).as_posix(), path.read_text()):
            known.add(full)
            row = row_of(test)
            if row:
                by_row[row].append(full)
    return known, by_row


def rows_in(text):
    """Yields (row, behaviour, last column) of a document's tables."""
    for line in text.splitlines():
        match = ROW.match(line)
        if match:
            yield match.groups()


def problem_of(row, by, known, by_row):
    """What is wrong with a row, or None."""
    tests = by_row.get(row, [])
    if by.startswith("none:"):
        if not by[5:].strip():
            return "has no test, and no reason for that"
        return f"says that it has no test, but {tests[0]} is one" if tests else None
    if by == "tested":
        return None if tests else "has no test, and no reason for that"
    missing = [name.strip() for name in by.split(",") if name.strip() not in known]
    return f"names a test that is not there: {', '.join(missing)}" if missing else None


def check(rows, known, by_row):
    """Yields what is wrong with the rows as a whole and with each."""
    numbers = [row for row, _, _ in rows]
    for row in ROWS:
        missing = 0 if row.rstrip("0123456789") in GROWING else 1
        if not missing <= numbers.count(row) <= 1:
            yield f"row {row}: stands {numbers.count(row)} times in the documents"
    for row in numbers:
        if row not in ROWS:
            yield f"row {row}: is not one that scripts/check_rows.py knows"
    for row in sorted(by_row.keys() - set(ROWS), key=len):
        # Rows of the agent's own behaviour are numbered on from there, and are not tabled here.
        if not row.isdigit() or int(row) <= COUNTS[""]:
            yield f"row {row}: {by_row[row][0]} carries it, but there is no such row"
    for row, _, by in rows:
        problem = problem_of(row, by, known, by_row)
        if problem:
            yield f"row {row}: {problem}"


def main():
    known, by_row = all_tests()
    rows = [row for document in DOCUMENTS for row in rows_in(document.read_text())]
    if "--all" in sys.argv[1:]:
        for row, behaviour, by in rows:
            print(f"{row}: {behaviour}")
            for test in by_row.get(row, []) or ([] if by.startswith("none:") else [by]):
                print(f"    {test}")
    without = [(row, behaviour, by[5:].strip()) for row, behaviour, by in rows
               if by.startswith("none:")]
    for row, behaviour, reason in without:
        print(f"row {row} has no test: {behaviour}: {reason}")
    problems = list(check(rows, known, by_row))
    for problem in problems:
        print(problem)
    print(f"{len(rows)} rows, {len(without)} without a test for a reason, "
          f"{len(problems)} problems")
    return 1 if problems or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
