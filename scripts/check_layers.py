#!/usr/bin/python3
"""Checks that each folder includes only what it may, and that pure folders stay pure.

The table below is the one in ARCHITECTURE.md. With one include root the compiler cannot check it:
every header can be found from everywhere. Prints `file:line: ...` for each breach.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What a folder may include, besides itself. Everything may include lockstep/base.
MAY_INCLUDE = {
    "lockstep/base": set(),
    "lockstep/coord": set(),
    "lockstep/wire": {"lockstep/coord"},
    "lockstep/runtime": set(),
    "lockstep/link": {"lockstep/wire", "lockstep/runtime"},
    "lockstep/observe": {"lockstep/coord", "lockstep/wire"},
    "lockstep/launch": {"lockstep/wire", "lockstep/runtime", "lockstep/link"},
    "lockstep/net": {"lockstep/coord", "lockstep/wire", "lockstep/runtime"},
    "lockstep/server": {"lockstep/coord", "lockstep/wire", "lockstep/runtime", "lockstep/link",
                        "lockstep/observe", "lockstep/net"},
    "lockstep/cli": {"lockstep/wire", "lockstep/runtime", "lockstep/link", "lockstep/observe",
                     "lockstep/launch"},
    "lockstep/sim": {"lockstep/coord"},
    "lockstep/testing": {"lockstep/coord", "lockstep/wire", "lockstep/runtime", "lockstep/link"},
}

# Decide only: no thread, clock, file, randomness, environment, wire format or socket.
PURE = {"lockstep/base", "lockstep/coord"}
# Says why before it ends the process.
PURE_EXEMPT = {"lockstep/base/check.h"}
PURE_BANS = [
    (r'#include\s*<(thread|mutex|shared_mutex|atomic|condition_variable|future|stop_token)>',
     "threads belong to the shell"),
    (r'#include\s*<(fstream|filesystem|cstdio|iostream|unistd\.h|sys/[^>]*|netinet/[^>]*)>',
     "files and system calls belong to the shell"),
    (r'#include\s*<random>', "ids come from counters in the state or from events"),
    (r'#include\s*"absl/(synchronization|flags|random)/', "threads, flags, randomness: the shell's"),
    (r'#include\s*["<](google/protobuf|grpc|grpcpp|asio|protozero|spdlog|nlohmann)\b',
     "a pure folder knows no wire format, socket or log"),
    (r'#include\s*"[^"]*\.pb\.h"', "a pure folder knows no wire format"),
    (r'\babsl::Now\b|\bGetCurrentTimeNanos\b|_clock::now\b|\bstd::time\(|\bclock_gettime\b',
     "time is the `now` argument"),
    (r'\b(std::)?(secure_)?getenv\s*\(', "settings come in Options"),
    (r'\bstd::(cout|cerr|clog)\b|\b(std::)?f?printf\s*\(', "what people should read is a notice"),
    (r'\b(std::)?s?rand\s*\(|\brandom_device\b|\bmt19937', "ids come from counters or events"),
]

# Where gRPC and libprotobuf may appear. Programs of users carry neither, so the client side does not.
GRPC = r'#include\s*["<]grpc(pp)?/'
PROTOBUF = r'#include\s*(["<]google/protobuf/|"[^"]*\.pb\.h")'
MAY_GRPC = {"lockstep/net", "lockstep/server"}
MAY_PROTOBUF = MAY_GRPC
PROTOZERO = r'#include\s*["<]protozero/'
MAY_PROTOZERO = {"lockstep/wire"}

INCLUDE = re.compile(r'#include\s*"(lockstep/[^"]+)"')


def folder_of(path):
    """lockstep/wire/xla/x.h -> lockstep/wire"""
    return "/".join(path.split("/")[:2])


def strip_comment(line):
    return line if "#include" in line else re.sub(r"//.*", "", line)


def without_block_comments(text):
    """The same lines, with what stands between /* and */ blanked."""
    return re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.DOTALL)


def check_line(name, line):
    """Yields what is wrong with a line of the named file."""
    folder = folder_of(name)
    is_test = pathlib.PurePath(name).stem.endswith("_test")
    match = INCLUDE.search(line)
    if match:
        target = folder_of(match.group(1))
        allowed = {folder, "lockstep/base"} | MAY_INCLUDE[folder]
        if is_test:
            allowed.add("lockstep/testing")
        if target not in allowed:
            yield f"{folder} may not include {target}"
        if target in ("lockstep/testing", "lockstep/sim") and folder != target and not is_test:
            yield f"{target} is for tests only"
    if folder in PURE and name not in PURE_EXEMPT and not is_test:
        for pattern, why in PURE_BANS:
            if re.search(pattern, line):
                yield f"not in a pure folder: {why}"
    # Tests hold our own encoding against the real library.
    for pattern, where, what in ((GRPC, MAY_GRPC, "gRPC"), (PROTOBUF, MAY_PROTOBUF, "libprotobuf"),
                                 (PROTOZERO, MAY_PROTOZERO, "protozero")):
        if re.search(pattern, line) and folder not in where and not is_test:
            yield f"{what} is only for {', '.join(sorted(where))}"


def check_file(path):
    name = path.relative_to(ROOT).as_posix()
    folder = folder_of(name)
    if folder not in MAY_INCLUDE:
        yield f"{name}:1: folder {folder} is not in the table of scripts/check_layers.py"
        return
    text = without_block_comments(path.read_text())
    for number, line in enumerate(text.splitlines(), 1):
        for problem in check_line(name, strip_comment(line)):
            yield f"{name}:{number}: {problem}"


def check_table():
    """The table itself: only known folders, and no way round in a circle."""
    for folder, targets in MAY_INCLUDE.items():
        for target in sorted(targets - MAY_INCLUDE.keys()):
            yield f"scripts/check_layers.py: {folder} names unknown {target}"
    settled = set()
    while True:
        ready = {f for f, t in MAY_INCLUDE.items() if f not in settled and t <= settled}
        if not ready:
            break
        settled |= ready
    if settled != MAY_INCLUDE.keys():
        yield f"scripts/check_layers.py: a circle among {sorted(MAY_INCLUDE.keys() - settled)}"


def main():
    problems = list(check_table())
    files = sorted(p for p in (ROOT / "lockstep").rglob("*") if p.suffix in (".h", ".cc"))
    if not files:
        problems.append("no source file was found below lockstep/")
    for path in files:
        problems += check_file(path)
    for problem in problems:
        print(problem)
    print(f"{len(files)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
