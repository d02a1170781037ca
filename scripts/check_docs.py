#!/usr/bin/python3
"""Checks what the documents say against the tree.

Every file or folder that a document names exists; links between documents lead somewhere, to a
heading where they name one; the reasons in docs/errors.md and docs/formats/link.md are those that
the code can give, each once in a table, and each is named by a test. Prose is wrapped at 100
columns.
"""

import collections
import glob
import itertools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOP = ("include", "lockstep", "docs", "scripts", "tests", "examples", "proto", "bench", "fuzz", "cmake",
       ".ci", "python", "deploy")
# A public header is named as programs include it.
BELOW = (ROOT, ROOT / "include")
# Tells of files that may be gone by now.
HISTORY = {"CHANGELOG.md"}

NAMED = re.compile(r"(?<![\w./-])((?:%s)/[\w./{},*-]*[\w}*/])" %
                   "|".join(re.escape(t) for t in TOP))
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
FENCE = re.compile(r"^\s*```")
# What a program writes into a document, between marks.
MADE = re.compile(r"^<!-- .*: (begin|end) -->$")
# What a line cannot be broken in: code and links.
WHOLE = re.compile(r"`[^`]*`|\[[^\]]*\]\([^)]*\)")
COLUMNS = 100
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
# Of a heading's text: its links, of which the words stay, and what an anchor has not.
LINKED = re.compile(r"\[([^\]]*)\]\([^)]*\)")
NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")
REASON_NAME = re.compile(r"\{Reason::(k\w+),\s*\"(\w+)\"\}")
# What is no coordinator's: WithReason(absl::...Error(...), "forked"), link->Close(why, "protocol"),
# Refused{.reason = "version", ...}, Refusal("connection_limit", ...).
GIVES_REASON = re.compile(r"\b(?:WithReason|Close)\(")
LAST_WORD = re.compile(r',\s*"([a-z_]+)"\s*$')
# Of the pure machines of data: inline constexpr std::string_view kPathRefused = "path_refused";
REASON_CONSTANT = re.compile(r'constexpr std::string_view (k\w+) = "([a-z_]+)";')
REFUSED = re.compile(r'\b(?:Refused\{\.reason = |Refusal\(\s*)"([a-z_]+)"')
REASON_ROW = re.compile(r"^\|\s*`(\w+)`\s*\|\s*([^|]*)\|")
REASON_DOCUMENTS = ("docs/errors.md", "docs/formats/link.md")


def expand(name):
    """a/{b,c}.h -> a/b.h, a/c.h"""
    parts = re.split(r"\{([^{}]*)\}", name)
    choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


def documents():
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def anchors(text):
    """Where links into a document may lead: its headings, as GitHub names them."""
    found, counts, fenced = set(), collections.Counter(), False
    for line in text.splitlines():
        if FENCE.match(line):
            fenced = not fenced
        heading = None if fenced else HEADING.match(line)
        if heading:
            words = LINKED.sub(r"\1", heading.group(1)).lower()
            name = NOT_IN_ANCHORS.sub("", words).replace(" ", "-")
            found.add(f"{name}-{counts[name]}" if counts[name] else name)
            counts[name] += 1
    return found


def check_link(path, target, anchor):
    """What is wrong with a link of the document to `target#anchor`, or None."""
    if "://" in target or not (target or anchor):
        return None
    to = path.parent / target if target else path
    if not to.exists():
        return f"the link to {target} leads nowhere"
    if anchor and to.suffix == ".md" and anchor not in anchors(to.read_text()):
        return f"the link to {target}#{anchor} leads nowhere: no heading is called so"
    return None


def check_names(path):
    document = path.relative_to(ROOT).as_posix()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for name in NAMED.findall(line):
            for one in expand(name.rstrip(".,")):
                if not any(glob.glob(str(folder / one)) for folder in BELOW):
                    yield f"{document}:{number}: there is no {one}"
        for target, anchor in LINK.findall(line):
            if problem := check_link(path, target, anchor):
                yield f"{document}:{number}: {problem}"


def wide_lines(text):
    """The numbers of lines of prose to break; code, tables and what a program wrote may be wide."""
    fenced = made = False
    for number, line in enumerate(text.splitlines(), 1):
        if mark := MADE.match(line):
            made = mark.group(1) == "begin"
        if FENCE.match(line):
            fenced = not fenced
        if fenced or made or len(line) <= COLUMNS or line.lstrip().startswith(("|", "#")):
            continue
        whole = WHOLE.sub(lambda span: "x" * len(span.group()), line).strip()
        if " " in whole:
            yield number


def check_width(path):
    document = path.relative_to(ROOT).as_posix()
    for number in wide_lines(path.read_text()):
        yield f"{document}:{number}: wrap prose at {COLUMNS} columns"


def arguments_at(text, begin):
    """What stands between the bracket that ends before `begin` and the one that closes it."""
    depth, quoted, i = 1, False, begin
    while depth and i < len(text):
        if quoted:
            i += text[i] == "\\"
            quoted = text[i] != '"'
        else:
            quoted = text[i] == '"'
            depth += (text[i] in "([{") - (text[i] in ")]}")
        i += 1
    return text[begin:i - 1]


def reasons_given(text):
    """The reasons that a C++ source gives by their words."""
    for call in GIVES_REASON.finditer(text):
        last = LAST_WORD.search(arguments_at(text, call.end()))
        if last:
            yield last.group(1)
    yield from REFUSED.findall(text)


def reasons_told(text):
    """The tables of reasons in a document: each as a list of (reason, code or when)."""
    table = []
    for line in [*text.splitlines(), ""]:
        if row := REASON_ROW.match(line):
            table.append(row.groups())
        elif not line.startswith("|"):
            if table:
                yield table
            table = []


def reason_tables(name):
    text = (ROOT / name).read_text()
    # The other tables of the link's document are of messages and their numbers.
    if name.endswith("link.md"):
        text = text[text.index("## Reasons"):]
    return list(reasons_told(text))


def check_reasons():
    enums = {}
    for folder in ("coord", "rendezvous"):
        source = ROOT / "lockstep" / folder / "error.cc"
        names = {name: enum for enum, name in REASON_NAME.findall(source.read_text())}
        if not names:
            yield f"{source.relative_to(ROOT)}: no reason was found in ReasonName"
        enums.update(names)
    constants = {}
    for folder in ("data/dispatch", "data/plan"):
        text = (ROOT / "lockstep" / folder / "error.h").read_text()
        constants.update({name: constant for constant, name in REASON_CONSTANT.findall(text)})
    known, tests = set(enums) | set(constants), ""
    for path in [*(ROOT / "lockstep").rglob("*.cc"), *(ROOT / "lockstep").rglob("*.h")]:
        if path.stem.endswith("_test"):
            tests += path.read_text()
        elif "testing" not in path.as_posix() and "sim" not in path.parts:
            known |= set(reasons_given(path.read_text()))
    for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "tests").rglob("*.cc")]:
        tests += path.read_text()

    told = set()
    for document in REASON_DOCUMENTS:
        for table in reason_tables(document):
            names = [name for name, _ in table]
            told |= set(names)
            for name in sorted({name for name in names if names.count(name) > 1}):
                yield f"{document}: has two rows for {name} in one table"
    for name in sorted(known - told):
        yield f"docs/errors.md: has no row for {name}"
    for name in sorted(told - known):
        yield f"docs/errors.md: {name} is not a reason"
    for name in sorted(known & told):
        named = f'"{name}"' in tests or re.search(
            rf"\bReason::{enums.get(name, name)}\b|\b{constants.get(name, name)}\b", tests)
        if not named:
            yield f"docs/errors.md: no test names {name}"


def main():
    files = documents()
    problems = [p for path in files if path.name not in HISTORY for p in check_names(path)]
    problems += [p for path in files for p in check_width(path)]
    problems += check_reasons()
    for problem in problems:
        print(problem)
    print(f"{len(files)} documents, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
