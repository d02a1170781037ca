#!/usr/bin/python3
"""Checks that what a mutex guards is only touched under it, with clang's thread safety analysis.

Reads sources as build/release/compile_commands.json says, without generating code; so the release
preset must be built. Reads only those that see a mutex, by what they include: the others, three of
four, have nothing that could be guarded. Prints what clang says of each breach. Folders that use the
standard mutex, which clang cannot follow, are breaches too, unless TO_CONVERT lists them. Tests are
not read: what they share is their own, and the thread sanitizer runs them.

    check_threads.py [FOLDER...]    only sources in these, such as lockstep/client
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMANDS = ROOT / "build" / "release" / "compile_commands.json"
CLANG = "clang++-14"
LIMIT_S = 600

# Nothing but this analysis: the other warnings are gcc's job.
FLAGS = ["-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Wthread-safety-beta", "-Werror"]

# Where threads share things. lockstep/base/mutex.h wraps the standard mutex and is no breach.
FOLDERS = ["lockstep", "python/bindings"]
WRAPPER = "lockstep/base/mutex.h"
MUTEXES = (WRAPPER, "absl/synchronization/mutex.h")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
# Only shrinks: a folder that has no standard mutex left must leave.
TO_CONVERT = {
    "lockstep/testing",
}
STANDARD = re.compile(r"\bstd::((recursive_|timed_|recursive_timed_|shared_|shared_timed_)?mutex|"
                      r"condition_variable(_any)?)\b")
COMMENT = re.compile(r"//.*")


def is_in(path, folders):
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def standard_mutexes(sources):
    """(folder, place) of each line that names a standard mutex; `sources` maps path to text."""
    return [(path.rpartition("/")[0], f"{path}:{number}")
            for path, text in sorted(sources.items()) if path != WRAPPER
            for number, line in enumerate(text.splitlines(), 1)
            if STANDARD.search(COMMENT.sub("", line))]


def check_conversion(sources, to_convert):
    found = standard_mutexes(sources)
    problems = [f"{place}: a standard mutex; use lockstep/base/mutex.h"
                for folder, place in found if folder not in to_convert]
    problems += [f"{folder}: has no standard mutex left; take it off TO_CONVERT"
                 for folder in sorted(to_convert - {folder for folder, _ in found})]
    return problems


def see_a_mutex(texts):
    """The files that include one of MUTEXES, themselves or by others; `texts` maps path to text."""
    users = {}
    for path, text in texts.items():
        folder = path.rpartition("/")[0]
        for name in INCLUDE.findall(text):
            for included in (name, f"include/{name}", f"{folder}/{name}"):
                users.setdefault(included, []).append(path)
    seeing, left = set(), list(MUTEXES)
    while left:
        for user in users.get(left.pop(), ()):
            if user not in seeing:
                seeing.add(user)
                left.append(user)
    return seeing


def sources_of(file, root=ROOT):
    """What the compiler is given: the file, or what a unity source made by CMake includes."""
    path = pathlib.Path(file)
    if "/Unity/" in file:
        included = re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE)
    else:
        included = [file]
    paths = [os.path.relpath(source, root) for source in included]
    return [path for path in paths if not path.endswith("_test.cc")]


def without_precompiled(words):
    """A command line without the headers that gcc precompiled (LOCKSTEP_PRECOMPILE), which clang cannot
    read: the sources include what they use."""
    kept = []
    for word in words:
        if pathlib.PurePath(word).name.startswith("cmake_pch.h"):
            if kept and kept[-1] == "-include":
                kept.pop()
        elif word != "-Winvalid-pch":
            kept.append(word)
    return kept


def clang_command(command):
    """gcc's command line as clang's, with this analysis alone: no output, none of gcc's warnings."""
    words, kept, skip = without_precompiled(shlex.split(command))[1:], [], False
    for word in words:
        if skip or word in ("-c", "-o"):
            skip = word == "-o"
        elif not word.startswith("-W"):
            kept.append(word)
    return [CLANG, *kept, *FLAGS]


def analyse(entry):
    """What clang says, or nothing."""
    done = subprocess.run(clang_command(entry["command"]), cwd=entry["directory"],
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode == 0:
        return ""
    return done.stderr.strip() or f"{entry['file']}: {CLANG}: exit code {done.returncode}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", help="only sources in these")
    folders = [folder.rstrip("/") for folder in parser.parse_args().folders]

    texts = {path.relative_to(ROOT).as_posix(): path.read_text()
             for folder in [*FOLDERS, "include"] for path in (ROOT / folder).rglob("*")
             if path.suffix in (".h", ".cc")}
    problems = check_conversion(texts, TO_CONVERT)
    if folders:
        problems = [problem for problem in problems if is_in(problem.split(":")[0], folders)]

    if not COMMANDS.exists():
        print(f"{COMMANDS.relative_to(ROOT)} is missing; run scripts/setup.sh first")
        return 1
    units, known, seen = [], set(), set()
    seeing = see_a_mutex(texts)
    for entry in json.loads(COMMANDS.read_text()):
        sources = [s for s in sources_of(entry["file"]) if is_in(s, folders or FOLDERS)]
        known.update(sources)
        if not seen.issuperset(seeing.intersection(sources)):
            units.append(entry)
            seen.update(seeing.intersection(sources))
    for folder in folders or FOLDERS:
        if not any(is_in(source, [folder]) for source in known):
            problems.append(f"{folder}: {COMMANDS.relative_to(ROOT)} has no source of it")

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        problems += filter(None, pool.map(analyse, units))
    for problem in problems:
        print(problem)
    print(f"{len(seen)} of {len(known)} sources, in {len(units)} compilations: "
          f"{f'{len(problems)} with breaches' if problems else 'all is guarded as declared'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
