#!/usr/bin/python3
"""Checks that a class has one job, as far as counting shows it: at most 25 methods, overloads of one
name counted once and so are a call and its `Async` form, and 12 data members.

Constructors, destructors, operators, friends and nested types do not count. A plain struct (all of it
public, with a handful of functions at most) is a record and may have any number of members.
large_classes.txt lists the classes that are larger, five at most, each with its reason. The figures there
may only shrink: a class that has become smaller fails the check, too, until its figures are lowered or its
line is deleted.

    scripts/check_classes.py           check
    scripts/check_classes.py --list    every class with its figures, the largest first
    scripts/check_classes.py --shrink  lowers the figures of large_classes.txt to what they are now
"""

import dataclasses
import pathlib
import re
import sys

from check_sizes import blank_literals_and_comments

ROOT = pathlib.Path(__file__).resolve().parent.parent
METHODS_MAX = 25
MEMBERS_MAX = 12
# A struct with more functions than this is a class in all but its first word.
RECORD_FUNCTIONS_MAX = 5

EXCEPTIONS_MAX = 5
EXCEPTIONS_FILE = pathlib.Path(__file__).with_name("large_classes.txt")

NOT_METHODS = {"if", "for", "while", "switch", "return", "static_assert", "alignas", "decltype",
               "sizeof", "noexcept", "requires", "operator"}


@dataclasses.dataclass
class Class:
    name: str            # with the classes around it: DataReader::Impl
    path: str
    line: int
    is_struct: bool
    has_private: bool = False
    methods: set = dataclasses.field(default_factory=set)
    members: list = dataclasses.field(default_factory=list)

    @property
    def is_record(self):
        return self.is_struct and not self.has_private and len(self.methods) <= RECORD_FUNCTIONS_MAX

    @property
    def figures(self):
        return len(self.methods), 0 if self.is_record else len(self.members)


def skip_block(code, position):
    """`position` is at a `{` or `(`; returns the position behind what closes it."""
    pairs = {"{": "}", "(": ")"}
    opening, closing = code[position], pairs[code[position]]
    depth = 0
    while position < len(code):
        if code[position] == opening:
            depth += 1
        elif code[position] == closing:
            depth -= 1
            if not depth:
                return position + 1
        position += 1
    return position


def without_templates(text):
    """`std::map<int, F<void()>> a` becomes `std::map a`; comparisons keep their signs."""
    pattern = re.compile(r"(?<=[\w>])\s*<[^<>]*>|template\s*<[^<>]*>")
    # `->` and `>=` close nothing.
    text = text.replace("->", "  ").replace(">=", "  ").replace("<=", "  ").replace("<<", "  ")
    while True:
        shorter = pattern.sub(" ", text)
        if shorter == text:
            return text
        text = shorter


CLASS_HEAD = re.compile(r"^(?:class|struct)\s+(?:\[\[[^\]]*\]\]\s*|ABSL_\w+(?:\([^)]*\))?\s*)*"
                        r"(?P<name>[\w:]+)\s*(?:final\s*)?(?::[^:].*)?$", re.DOTALL)


def declaration(text, into):
    """Enters one declaration of a class body, without its function body or initialiser in braces."""
    text = without_templates(text)
    text = re.sub(r"\[\[[^\]]*\]\]|\bABSL_\w+\s*(\([^()]*(\([^()]*\)[^()]*)*\))?", " ", text).strip()
    if not text or re.match(r"(using|typedef|friend|enum|static_assert|union)\b", text):
        return
    if re.search(r"\boperator\b", text.split("(")[0] + "("):
        return
    before_initialiser = re.split(r"(?<![=!<>])=(?!=)", text)[0]
    if "(" in before_initialiser:
        name = re.search(r"(~?\w+)\s*\(", before_initialiser)
        short = into.name.split("::")[-1]
        if name and name.group(1) not in (short, "~" + short) and name.group(1) not in NOT_METHODS:
            into.methods.add(name.group(1).removesuffix("Async"))
        return
    if re.match(r"(class|struct)\s+\w+$", text):  # a forward declaration
        return
    if re.match(r"(static\s+|inline\s+)*(constexpr|static)\b", text):  # of the class, not of an object
        return
    for name in before_initialiser.split(","):
        word = re.search(r"(\w+)\s*(\[[^\]]*\]\s*)*(:\s*\d+)?$", name.strip())
        if word:
            into.members.append(word.group(1))


def read_body(code, position, into, found, path):
    """Reads the class body that begins at `position`, up to its closing brace; returns what follows."""
    start = position
    while position < len(code):
        character = code[position]
        if character == "}":
            return position + 1
        if character == ";":
            declaration(code[start:position], into)
            start = position = position + 1
        elif character == ":" and re.search(r"\b(public|private|protected)\s*$", code[start:position]):
            into.has_private |= not code[start:position].rstrip().endswith("public")
            start = position = position + 1
        elif character == "(":
            position = skip_block(code, position)
        elif character == "{":
            head = code[start:position].strip()
            plain = re.sub(r"^template\s*<.*?>\s*(?=class|struct)", "", head, flags=re.DOTALL)
            nested = CLASS_HEAD.match(plain)
            if nested:
                position = read_class(code, position, plain, nested, into, found, path)
                start = position
                continue
            if re.match(r"(enum|union)\b", head):
                position = skip_block(code, position)
                start = position
                continue
            after = skip_block(code, position)
            rest = code[after:after + 200].lstrip()
            is_function = "(" in without_templates(re.split(r"(?<![=!<>])=(?!=)", head)[0])
            if is_function and rest[:1] not in (",", "{", ";"):
                declaration(head, into)
                start = after
            elif not is_function:
                # A member's initialiser: what stands in the braces says nothing.
                code = code[:position] + " " * (after - position) + code[after:]
            position = after
        else:
            position += 1
    return position


def read_class(code, position, head, match, around, found, path):
    name = match.group("name")
    if around:
        name = around.name + "::" + name
    entry = Class(name, path, code.count("\n", 0, position) + 1, head.startswith("struct"))
    found.append(entry)
    return read_body(code, position + 1, entry, found, path)


def classes(text, path):
    """Every class and struct with a body in a C++ source, nested ones after those around them."""
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group()),
                  blank_literals_and_comments(text), flags=re.MULTILINE)
    found = []
    pattern = re.compile(r"(?<![\w<,])(?<!enum )(?:class|struct)\s[^;{}()=]*(?:\([^()]*\)[^;{}()=]*)?\{")
    position = 0
    while True:
        start = pattern.search(code, position)
        if not start:
            return found
        head = start.group()[:-1].strip()
        match = CLASS_HEAD.match(head)
        if match:
            position = read_class(code, start.end() - 1, head, match, None, found, path)
        else:
            position = start.end()


def all_classes(root=ROOT):
    """Of production code: no tests, and nothing that is there for tests only."""
    found = []
    for path in sorted([*(root / "include").rglob("*"), *(root / "lockstep").rglob("*")]):
        name = path.relative_to(root).as_posix()
        if path.suffix not in (".h", ".cc") or is_for_tests(name):
            continue
        found += classes(path.read_text(), name)
    return found


def is_for_tests(name):
    return (re.search(r"(_test|_testing|_harness|_test_util)\.|/(testing|sim)/|/testing\.|"
                      r"/(fake_server|torch_client)\.", name) is not None)


def read_exceptions(text):
    """`NAME METHODS MEMBERS [reason]` a line; # begins a comment."""
    entries = {}
    for line in text.splitlines():
        line = line.split("#")[0].split(None, 3)
        if line:
            entries[line[0]] = (int(line[1]), int(line[2]))
    return entries


def check_list(text):
    """What is wrong with the list itself."""
    entries = [line.split(None, 3) for line in text.splitlines() if line and not line.startswith("#")]
    if len(entries) > EXCEPTIONS_MAX:
        yield f"scripts/large_classes.txt has {len(entries)} classes; at most {EXCEPTIONS_MAX}"
    for entry in entries:
        if len(entry) < 4:
            yield f"scripts/large_classes.txt: {entry[0]} has no reason"


def is_large(entry):
    return entry.figures[0] > METHODS_MAX or entry.figures[1] > MEMBERS_MAX


def check(found, exceptions):
    large = {}
    for entry in found:
        if not is_large(entry):
            continue
        methods, members = entry.figures
        large[entry.name] = (methods, members)
        place = f"{entry.path}:{entry.line}: {entry.name} has {methods} methods and {members} members"
        allowed = exceptions.get(entry.name)
        if not allowed:
            yield f"{place}; at most {METHODS_MAX} and {MEMBERS_MAX}: split it by what it is for"
        elif methods > allowed[0] or members > allowed[1]:
            yield f"{place}; scripts/large_classes.txt allows {allowed[0]} and {allowed[1]}, no more"
        elif (methods, members) != allowed:
            yield f"{place}, fewer than scripts/large_classes.txt says: lower its figures there"
    for name in exceptions.keys() - large.keys():
        yield f"scripts/large_classes.txt: {name} is not too large any more: delete its line"


def shrink(found, text):
    """The text of large_classes.txt with its figures lowered, and without what is not too large now."""
    now = {entry.name: entry.figures for entry in found if is_large(entry)}
    lines = []
    for line in text.splitlines():
        words = line.split(None, 3)
        if words and not line.startswith("#"):
            if words[0] not in now:
                continue
            methods, members = now[words[0]]
            words[1:3] = str(min(methods, int(words[1]))), str(min(members, int(words[2])))
            line = " ".join(words)
        lines.append(line)
    return "\n".join(lines) + "\n"


def main():
    found = all_classes()
    if "--list" in sys.argv[1:]:
        for entry in sorted(found, key=lambda e: e.figures, reverse=True):
            print(f"{entry.figures[0]:4} {entry.figures[1]:4}  {entry.name}  {entry.path}:{entry.line}")
        return 0
    if "--shrink" in sys.argv[1:]:
        EXCEPTIONS_FILE.write_text(shrink(found, EXCEPTIONS_FILE.read_text()))
    exceptions = read_exceptions(EXCEPTIONS_FILE.read_text())
    problems = [*check_list(EXCEPTIONS_FILE.read_text()), *check(found, exceptions)]
    for problem in problems:
        print(problem)
    print(f"{len(found)} classes, {len(exceptions)} of them larger than they should be, "
          f"{len(problems)} problems")
    return 1 if problems or not found else 0


if __name__ == "__main__":
    sys.exit(main())
