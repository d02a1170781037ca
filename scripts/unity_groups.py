#!/usr/bin/python3
"""Says which sources of a target may be compiled together, as one.

Sources are compiled together in groups (CMake's UNITY_BUILD) to read their headers once. What a
source declares for itself, in an unnamed namespace or as static, is then seen by the others of its
group. So no two sources that declare the same such name come into one group, nor one that uses a name
which another declares as a type of its own; and a source with a type or constant that is called like
one of a header stays alone. Nobody has to invent a longer name, and nothing has to be listed by hand:
cmake/LockstepUnity.cmake asks at every configuration.

    unity_groups.py LIST    LIST has a line `TARGET SOURCE` for each source, in order;
                            prints a line `TARGET GROUP SOURCE` for each
"""

import pathlib
import re
import sys

from check_sizes import blank_literals_and_comments

# More of them gain little, cost memory, and leave cores without work.
GROUP_SOURCES_MAX = 8
GROUP_LINES_MAX = 4000

# What a declaration begins with that is not seen outside of its source, unnamed namespace or not.
LOCAL = re.compile(r"(inline\s+)?static\b|TEST|TYPED_TEST|constexpr\b|const\b|using\b")

# Not names that a declaration gives.
NO_NAMES = {"if", "for", "while", "switch", "return", "sizeof", "decltype", "noexcept", "requires",
            "alignas", "operator", "static_assert", "defined", "ABSL_GUARDED_BY"}


def declared_by(head):
    """The names that one declaration gives, by its text up to its body, initialiser or semicolon."""
    head = re.sub(r"^\s*template\s*<.*?>\s*(?=class|struct|using|constexpr|inline|static|auto|\w)", "",
                  head, flags=re.DOTALL).strip()
    test = re.match(r"(?:TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_SUITE|MATCHER\w*|"
                    r"INSTANTIATE_TEST_SUITE_P|ACTION\w*)\s*\(([^)]*)\)?", head)
    if test:
        return {re.sub(r"\W+", ".", ".".join(test.group(1).split(",")[:2]).strip())}
    if re.match(r"using\s+namespace\b", head) or head.startswith("static_assert"):
        return set()
    taken = re.match(r"using\s+([\w:]+)$", head)
    if taken:
        return {taken.group(1)}  # a::b::Name
    alias = re.match(r"using\s+(\w+)\s*=", head)
    if alias:
        return {alias.group(1), "type " + alias.group(1)}
    kind = re.match(r"(?:typedef\s+)?(?:enum\s+class|enum|class|struct|union|concept)\s+"
                    r"(?:\[\[[^\]]*\]\]\s*)*(?:alignas\([^)]*\)\s*)?(\w+)", head)
    if kind:
        return {kind.group(1), "type " + kind.group(1)}
    before = re.split(r"(?<![=!<>])=(?!=)", head)[0]
    while True:
        shorter = re.sub(r"(?<=\w)\s*<[^<>]*>", "", before)
        if shorter == before:
            break
        before = shorter
    function = re.search(r"([\w:]+)\s*\(", before)
    if function:
        name = function.group(1)
        return set() if "::" in name or name in NO_NAMES else {name}
    variable = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", before.strip())
    return {variable.group(1)} if variable and " " in before.strip() else set()


def local_names(text):
    """What a C++ source declares for itself alone, and what it defines as a macro; types twice, as
    `Name` and `type Name`."""
    names = {"#" + name for name in re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.MULTILINE)}
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", " ", blank_literals_and_comments(text),
                  flags=re.MULTILINE)
    scopes = []  # of each open brace: "named", "unnamed" or "body"
    start = parentheses = 0
    for position, character in enumerate(code):
        if character in "()":
            parentheses += 1 if character == "(" else -1
        if parentheses or "body" in scopes:
            if character == "{":
                scopes.append("body")
            elif character == "}" and scopes:
                scopes.pop()
                if "body" not in scopes and not parentheses:
                    start = position + 1
            continue
        head = code[start:position].strip()
        hidden = "unnamed" in scopes
        if character == ";":
            if head and (hidden or LOCAL.match(head)):
                names |= declared_by(head)
            start = position + 1
        elif character == "{":
            namespace = re.match(r"(?:inline\s+)?namespace\b\s*([\w:]*)$", head)
            if namespace:
                scopes.append("named" if namespace.group(1) else "unnamed")
            else:
                if head and (hidden or LOCAL.match(head)):
                    names |= declared_by(head)
                scopes.append("body")
            start = position + 1
        elif character == "}" and scopes:
            scopes.pop()
            start = position + 1
    return names


def words(text):
    return set(re.findall(r"\w+", blank_literals_and_comments(text)))


def hides(names, used):
    """Whether a type among the names is a word that a source uses, for some other type."""
    return any(name.startswith("type ") and name[5:] in used for name in names)


def clash(names, others):
    """Whether a name means two things: declared twice, or declared and taken from another namespace."""
    meanings = {}
    for name in names | others:
        if name.startswith("type "):
            continue
        short = name.split("::")[-1]
        if short in meanings or (name in names and name in others and "::" not in name):
            return True
        meanings[short] = name
    return False


def declared_in_headers(root):
    """What headers declare that a source must not declare again for itself: types, and constants of
    test support, which lies in the namespace of what it tests."""
    names = set()
    for header in [*(root / "include").rglob("*.h"), *(root / "lockstep").rglob("*.h")]:
        names |= set(re.findall(r"^(?:class|struct|enum class|using)\s+(\w+)", header.read_text(),
                                re.MULTILINE))
    names = {"type " + name for name in names}
    for folder in ("tests", "bench", "fuzz"):
        for header in (root / folder).rglob("*.h"):
            names |= set(re.findall(r"^(?:inline )?constexpr .*?(\w+) = ", header.read_text(),
                                    re.MULTILINE))
    return names


def grouped(sources):
    """[[name, ...], ...] of [(name, its local names, its words, its lines)]: each goes into the first
    group that it fits into."""
    groups = []
    for name, names, used, lines in sources:
        for group in groups:
            if (len(group["sources"]) < GROUP_SOURCES_MAX and
                    group["lines"] + lines <= GROUP_LINES_MAX and
                    not clash(group["names"], names) and
                    not hides(names, group["words"]) and not hides(group["names"], used)):
                break
        else:
            group = {"sources": [], "names": set(), "words": set(), "lines": 0}
            groups.append(group)
        group["sources"].append(name)
        group["names"] |= names
        group["words"] |= used
        group["lines"] += lines
    return [group["sources"] for group in groups]


def main():
    public = declared_in_headers(pathlib.Path(__file__).resolve().parent.parent)
    targets = {}
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        target, source = line.split(" ", 1)
        text = pathlib.Path(source).read_text()
        names = local_names(text)
        lines = GROUP_LINES_MAX if names & public else text.count("\n")
        targets.setdefault(target, []).append((source, names, words(text), lines))
    for target, sources in targets.items():
        for number, group in enumerate(grouped(sources)):
            for source in group:
                print(f"{target} {number} {source}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
