#!/usr/bin/python3
"""Checks that a file fits in the head: files of 800 lines at most, functions of 70.

Functions are found by their braces, which is exact enough for code formatted as ours is. A table
of facts (a test's rows, one switch over every reason) may be longer; EXCEPTIONS names those, with
the reason.
"""

import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
LINE_CHARACTERS_MAX = 110  # clang-format aims at 100 and cannot break everything
FOLDERS = ["include", "lockstep", "python", "bench", "examples", "fuzz", "proto", "scripts", "tests", "cmake"]
SUFFIXES = {".h", ".cc", ".py", ".sh", ".proto", ".cmake"}

# "path:function": why it may be longer.
EXCEPTIONS = {
    "lockstep/stock/grpc/stock_listener_test.cc:TEST_F": "one script that answers every call of the service",
}


def blank_literals_and_comments(text):
    """C++ with comments, strings and characters replaced by spaces, lines kept."""
    pattern = re.compile(
        r'R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.DOTALL)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def cpp_functions(text):
    """Yields (name, first line, lines) of each function with a body outside other functions."""
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group()),
                  blank_literals_and_comments(text), flags=re.MULTILINE)
    scopes = []          # of each open brace: "scope" or "body"
    start = 0            # where the text before the next brace begins
    outer = None         # (name, first line) of the function we are in
    for position, character in enumerate(code):
        if character == ";" and (not scopes or scopes[-1] == "scope"):
            start = position + 1
        elif character == "{":
            head = code[start:position]
            is_scope = re.search(r"\b(namespace|class|struct|union|enum|extern)\b[^()]*$", head)
            if outer or not (is_scope or not scopes and not head.strip()):
                if not outer and "(" in head:
                    name = re.search(r"([\w:~]+)\s*\(", head)
                    first = code.count("\n", 0, start + len(head) - len(head.lstrip())) + 1
                    outer = (name.group(1) if name else "?", first, len(scopes))
                scopes.append("body")
            else:
                scopes.append("scope")
            start = position + 1
        elif character == "}" and scopes:
            scopes.pop()
            start = position + 1
            # `a_{1}, b_{2} {`: members before the body.
            ends = code[position + 1:position + 80].lstrip()[:1] not in (",", "{")
            if outer and len(scopes) == outer[2] and ends:
                last = code.count("\n", 0, position) + 1
                yield outer[0], outer[1], last - outer[1] + 1
                outer = None


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def check_file(path):
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text()
    lines = text.splitlines()
    if len(lines) > FILE_LINES_MAX:
        yield f"{name}:1: {len(lines)} lines, more than {FILE_LINES_MAX}"
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_CHARACTERS_MAX and "http" not in line and path.suffix != ".cmake":
            yield f"{name}:{number}: {len(line)} characters, more than {LINE_CHARACTERS_MAX}"
    if path.suffix in (".h", ".cc"):
        functions = cpp_functions(text)
    elif path.suffix == ".py":
        functions = python_functions(text)
    else:
        functions = []
    for function, first, count in functions:
        if count > FUNCTION_LINES_MAX and f"{name}:{function}" not in EXCEPTIONS:
            yield (f"{name}:{first}: {function} has {count} lines, more than "
                   f"{FUNCTION_LINES_MAX}")


def main():
    files = sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*")
                   if p.suffix in SUFFIXES and "__pycache__" not in p.parts)
    problems = [problem for path in files for problem in check_file(path)]
    for problem in problems:
        print(problem)
    print(f"{len(files)} files, {len(problems)} problems")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
