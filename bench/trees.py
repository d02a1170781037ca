#!/usr/bin/env python3
"""Compares two trees of Lockstep, row by row, in one run: what a change costs, without the noise
between one run and the next.

    git worktree add ../before COMMIT
    (cd ../before && scripts/setup.sh venvs && scripts/setup.sh build release)
    scripts/setup.sh frameworks
    build/peers/frameworks/bin/python bench/trees.py ../before coordination store

In both trees `scripts/setup.sh build release` also takes `coordination_bench` for `native`,
`rendezvous_bench` for `rendezvous` and `preemption_bench` for `preemption`; `data` takes
`scripts/setup.sh loaders` in this one.

The rows are those of the benchmarks against peers, measured without the peers. For every row the
trees take turns, each time with new processes; which begins alternates too. A figure is the median
over the repetitions; the ratio is above 1 where this tree is better. The exit code is 1 when a row
is slower than `--slower-max` allows, in this run and, measured anew, in a second one.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import sys
import types

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "interop")]

from document import machine  # noqa: E402

TREES = ("before", "after")
SLOWER_MAX = 0.05
AGAIN_TIMES = 3  # so many times the repetitions, for a row that seems to be slower


def module(path):
    sys.path.insert(0, str(path.parent))  # where what it imports lies
    spec = importlib.util.spec_from_file_location(f"bench_{path.parent.name}_{path.stem}", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def forget_modules():
    """Those of one benchmark have the names of another's."""
    for name in ("programs", "goals"):
        sys.modules.pop(name, None)


class Row:
    """One line. `measure(tree)` gives the figure, with all that it starts taken from that tree."""

    def __init__(self, name, unit, measure, more_is_better):
        self.name, self.unit, self.measure = name, unit, measure
        self.more_is_better = more_is_better
        self.figures = {tree: [] for tree in TREES}

    def run(self, repetitions):
        for repetition in range(repetitions):
            for tree in TREES[::1 if repetition % 2 == 0 else -1]:
                self.figures[tree].append(self.measure(tree))

    def median(self, tree):
        return statistics.median(self.figures[tree])

    def ratio(self):
        before, after = map(self.median, TREES)
        return after / before if self.more_is_better else before / after

    def line(self):
        shown = (f"{self.median(tree):.3g} {self.unit} "
                 f"({min(self.figures[tree]):.3g}..{max(self.figures[tree]):.3g})" for tree in TREES)
        return "{:<46}{:>32}{:>32}{:>8.2f}".format(self.name, *shown, self.ratio())


def coordination(trees):
    bench, servers = module(HERE / "coordination" / "run.py"), sys.modules["servers"]
    for row in bench.rows(with_detection=False):
        def measure(tree, row=row):
            servers.BIN = trees[tree] / "build" / "bin"
            return row.measure("lockstep")
        yield Row(f"coordination: {row.name}", row.unit, measure, row.more_is_better)


def native(trees):
    bench = module(HERE / "coordination" / "native.py")
    for row in bench.rows():
        for kind in bench.OURS:
            if kind not in row.kinds:
                continue

            def measure(tree, row=row, kind=kind):
                bench.BIN = trees[tree] / "build" / "bin"
                return row.figure(kind)
            yield Row(f"native: {row.name}{', durable' if 'durable' in kind else ''}", row.unit,
                      measure, row.more_is_better)


def store(trees):
    bench = module(HERE / "store" / "run.py")
    bench.without_lookups()
    for row in bench.rows():
        def measure(tree, row=row):
            bench.BIN = trees[tree] / "build" / "bin"
            return bench.measure("lockstep", *row.arguments)
        yield Row(f"store: {row.name}", row.unit, measure, row.more_is_better)


def data(trees):
    """Of each row CPU time, which others on the machine disturb least."""
    forget_modules()
    programs = module(HERE / "data" / "programs.py")
    options = types.SimpleNamespace(seconds=1.5, elements=1_000_000,
                                    data=ROOT / "build" / "bench-data")
    module(HERE / "data" / "run.py").make_files(options)
    for row, (title, of_row) in programs.ROWS.items():
        for program in (one for one in of_row if one.group == "ours"):
            def measure(tree, row=row, program=program):
                programs.OUR_PACKAGE = trees[tree] / "build" / "release" / "python"
                os.environ["LOCKSTEP_BIN"] = str(trees[tree] / "build" / "bin")
                return programs.run(program, row, options, no_outage=True)["cpu_us"]
            yield Row(f"data: {title}, {program.variant}", "us CPU", measure, False)


def rendezvous(trees):
    forget_modules()
    bench = module(HERE / "rendezvous" / "run.py")
    programs = bench.programs
    for number, ours in enumerate(programs.programs(server=None)):
        if ours.group != "ours":
            continue
        for shape, size in bench.MEASUREMENTS:
            if shape not in ours.shapes:
                continue

            def measure(tree, number=number, shape=shape, size=size):
                programs.BIN = trees[tree] / "build" / "bin"
                rounds = bench.PAUSED_ROUNDS if shape == "pause" else bench.ROUNDS[size]
                server = programs.Server()
                try:
                    figure = programs.programs(server)[number].measure(shape, size, rounds)
                finally:
                    server.end()
                return figure["gb_per_s" if shape == "stream" else "p50_us"]
            yield Row(f"rendezvous: {ours.name}, {shape} {bench.size_name(size)}",
                      "GB/s" if shape == "stream" else "us", measure, shape == "stream")


def preemption(trees):
    """Of members in C++: those in Python are mostly Python."""
    bench = module(HERE / "preemption" / "native.py")
    for members, rounds in bench.SIZES:
        for durable in (False, True):
            def measure(tree, members=members, rounds=rounds, durable=durable):
                bench.BIN = trees[tree] / "build" / "bin"
                return bench.native(members, rounds, durable)["agreement_ms"]["median"]
            yield Row(f"preemption: {members} members{', durable' if durable else ''}", "ms", measure,
                      False)


BENCHES = {bench.__name__: bench
           for bench in (coordination, native, store, data, rendezvous, preemption)}


def compared(row, options):
    """The row as measured; measured anew, and oftener, if it seems to be slower."""
    row.run(options.repetitions)
    print(row.line(), flush=True)
    if row.ratio() >= 1 - options.slower_max:
        return row
    again = Row(row.name, row.unit, row.measure, row.more_is_better)
    again.run(AGAIN_TIMES * options.repetitions)
    print(f"{again.line()}  (anew)", flush=True)
    return again


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path, help="the other tree, with its release build")
    parser.add_argument("benches", nargs="+", choices=BENCHES, metavar="BENCH",
                        help=", ".join(BENCHES))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows with TEXT in their name")
    parser.add_argument("--slower-max", type=float, default=SLOWER_MAX, metavar="SHARE")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    trees = {"before": options.before.resolve(), "after": ROOT}
    for tree in trees.values():
        if not (tree / "build" / "bin" / "lockstep-server").exists():
            parser.error(f"{tree} has no release build: run scripts/setup.sh build release there")

    print(f"{machine()}; load {os.getloadavg()[0]:.1f}")
    print("{:<46}{:>32}{:>32}{:>8}".format("row", *TREES, "ratio"))
    done = [compared(row, options) for bench in options.benches for row in BENCHES[bench](trees)
            if options.only in row.name]
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "rows": [
            {"name": row.name, "unit": row.unit, "ratio": row.ratio(), **row.figures}
            for row in done]}, indent=1), encoding="utf-8")
    slower = [row for row in done if row.ratio() < 1 - options.slower_max]
    for row in slower:
        print(f"slower by more than {options.slower_max:.0%}: {row.name}: {row.ratio():.2f}")
    print(f"{len(done) - len(slower)} rows kept, {len(slower)} slower")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
