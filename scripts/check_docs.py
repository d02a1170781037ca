#!/usr/bin/python3
"""Checks what the documents say against the tree.

Every file or folder that a document names exists; links between documents lead somewhere; the
reasons in docs/errors.md are those that the code can give.
"""

import glob
import itertools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOP = ("lockstep", "docs", "scripts", "tests", "examples", "proto", "bench", "fuzz", "cmake", ".ci",
       "python", "deploy")
# Tells of files that may be gone by now.
HISTORY = {"CHANGELOG.md"}

NAMED = re.compile(r"(?<![\w./-])((?:%s)/[\w./{},*-]*[\w}*/])" %
                   "|".join(re.escape(t) for t in TOP))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
REASON_NAME = re.compile(r"\{Reason::(k\w+),\s*\"(\w+)\"\}")
# The client speaks for itself: WithReason(absl::...Error(...), "forked").
CLIENT_REASON = re.compile(r'\),\s*"([a-z_]+)"\)')
REASON_ROW = re.compile(r"^\|\s*`(\w+)`\s*\|")


def expand(name):
    """a/{b,c}.h -> a/b.h, a/c.h"""
    parts = re.split(r"\{([^{}]*)\}", name)
    choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


def documents():
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def check_names(path):
    document = path.relative_to(ROOT).as_posix()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for name in NAMED.findall(line):
            for one in expand(name.rstrip(".,")):
                if not glob.glob(str(ROOT / one)):
                    yield f"{document}:{number}: there is no {one}"
        for target in LINK.findall(line):
            if "://" not in target and not (path.parent / target).exists():
                yield f"{document}:{number}: the link to {target} leads nowhere"


def check_reasons():
    source = ROOT / "lockstep" / "coord" / "error.cc"
    document = ROOT / "docs" / "errors.md"
    known = {name for _, name in REASON_NAME.findall(source.read_text())}
    told = {m.group(1) for m in map(REASON_ROW.match, document.read_text().splitlines()) if m}
    if not known:
        yield f"{source.relative_to(ROOT)}: no reason was found in ReasonName"
    for client in (ROOT / "lockstep" / "client").glob("*.*"):
        if not client.stem.endswith("_test"):
            known |= set(CLIENT_REASON.findall(client.read_text()))
    for name in sorted(known - told):
        yield f"docs/errors.md: has no row for {name}"
    for name in sorted(told - known):
        yield f"docs/errors.md: {name} is not a reason"


def main():
    files = documents()
    problems = [p for path in files if path.name not in HISTORY for p in check_names(path)]
    problems += check_reasons()
    for problem in problems:
        print(problem)
    print(f"{len(files)} documents, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
