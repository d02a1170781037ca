#!/usr/bin/python3
"""Has clang-tidy read sources, with the checks of .clang-tidy.

Reads sources as build/release/compile_commands.json says, several in one compilation: that takes a
third of the time. So the release preset must be built. Prints each finding. TO_READ names the folders
that are read, each without the folders below it.

    check_tidy.py [FOLDER...]    only sources in these, such as lockstep/coord
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
import tempfile

from check_threads import COMMANDS, LIMIT_S, ROOT, sources_of, without_precompiled

TIDY = "clang-tidy-14"

# Only grows: folders in which clang-tidy finds nothing. A source takes 2 to 3 s of a processor, so the
# machines come first.
TO_READ = [
    "lockstep/base",
    "lockstep/coord",
    "lockstep/data/consumer",
    "lockstep/data/plan",
    "lockstep/rendezvous",
]

# A unity source includes sources; and clang-tidy 14 takes a defaulted operator<=> for a null pointer.
# The others look at each name of each header: a quarter of the time for what reviewers see.
NOT = ",".join(f"-{check}" for check in (
    "bugprone-suspicious-include", "modernize-use-nullptr",
    "bugprone-reserved-identifier", "bugprone-stringview-nullptr", "modernize-redundant-void-arg"))
FINDING = re.compile(r"^(?P<place>\S+:\d+:\d+): (?:error|warning): (?P<what>.*)$", re.MULTILINE)


def folder_of(path):
    return path.rpartition("/")[0]


def units_of(entries, folders, root=ROOT):
    """The entries that read the folders' sources, each source once; and those sources."""
    units, seen = [], set()
    for entry in entries:
        sources = [s for s in sources_of(entry["file"], root) if folder_of(s) in folders]
        if sources and not seen.issuperset(sources):
            units.append(entry)
            seen.update(sources)
    return units, seen


def readable(entry):
    """The entry with a command that clang can follow."""
    words = without_precompiled(shlex.split(entry["command"]))
    return {"directory": entry["directory"], "file": entry["file"], "command": shlex.join(words)}


def findings(text, folders, root=ROOT):
    """`place: what` of each finding within the folders, of clang-tidy's output. What does not compile
    is one wherever it is: clang-tidy has not read the rest."""
    found = []
    for match in FINDING.finditer(text):
        place = os.path.relpath(match.group("place"), root)
        if folder_of(place.split(":")[0]) in folders or "clang-diagnostic-error" in match.group("what"):
            found.append(f"{place}: {match.group('what')}")
    return found


def read(entry, folders, root=ROOT):
    """What clang-tidy finds in the folders when it reads this entry."""
    # `-p` takes a folder. One with this entry alone: clang-tidy would read a source once for each.
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / COMMANDS.name).write_text(json.dumps([readable(entry)]))
        done = subprocess.run([TIDY, "-p", folder, "--quiet", f"--checks={NOT}",
                               "--extra-arg=-Wno-everything", entry["file"]],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
    found = findings(done.stdout, folders, root)
    if done.returncode < 0 or (done.returncode and not done.stdout):
        found.append(f"{entry['file']}: {TIDY}: exit code {done.returncode}: {done.stderr.strip()[-400:]}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", help="only sources in these")
    folders = [folder.rstrip("/") for folder in parser.parse_args().folders] or TO_READ
    if not COMMANDS.exists():
        print(f"{COMMANDS.relative_to(ROOT)} is missing; run scripts/setup.sh first")
        return 1
    units, seen = units_of(json.loads(COMMANDS.read_text()), folders)
    problems = [f"{folder}: {COMMANDS.relative_to(ROOT)} has no source of it" for folder in folders
                if folder not in map(folder_of, seen)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for found in pool.map(lambda unit: read(unit, folders), units):
            problems += found
    # A header is read by many.
    problems = sorted(set(problems))
    for problem in problems:
        print(problem)
    print(f"{len(seen)} sources in {len(units)} compilations: {len(problems) or 'no'} findings")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
