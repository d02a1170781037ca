#!/usr/bin/env python3
"""Compares loaders of training data, in one run: ours, those of torch, TensorFlow and Grain, and
what a bare copy takes.

    scripts/setup.sh loaders                        # once: the peers
    scripts/setup.sh build release                  # ours
    bench/data/run.py --document docs/performance.md

In every repetition the programs take turns, row by row, each in processes of its own; every other
repetition they do so backwards. A figure is the median over the repetitions, but of outages the
longest. A program that is not installed, hangs or fails is left out of that row, and the document
says so. Nobody is pinned, and nobody has priority.
"""

import argparse
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import goals
import programs

BEGIN, END = "<!-- bench/data: begin -->", "<!-- bench/data: end -->"
ARRAY_BYTES = 8 << 20
FILES_LIMIT_S = 300


class Results:
    """All figures by program and row; and who failed in which row, with the last reason."""

    def __init__(self):
        self.figures = {}
        self.failed = {}
        self.how = ""  # and where

    def add(self, name, row, figures):
        if row.startswith("arrays"):
            gb = 1e-9 * ARRAY_BYTES
            figures = {**figures, "gb_per_s": gb * figures["per_s"],
                       "cpu_s_per_gb": 1e-6 * figures["cpu_us"] / gb,
                       "consumer_cpu_s_per_gb": 1e-6 * figures["consumer_cpu_us"] / gb}
        self.figures.setdefault((name, row), []).append(figures)

    def gave_up(self, name, row):
        """Whether a killed worker was the end of it: that is looked at once, since it takes long."""
        return any(figures.get("hung") or figures.get("failed")
                   for figures in self.figures.get((name, row), ()))

    def all(self, name, row, key):
        return [figures[key] for figures in self.figures.get((name, row), ())
                if figures.get(key) is not None]

    def median(self, name, row, key):
        """None where there is none."""
        values = self.all(name, row, key)
        return statistics.median(values) if values else None

    def longest(self, name, row, key):
        """None where there is none."""
        return max(self.all(name, row, key), default=None)

    def dump(self):
        return json.dumps({"how": self.how,
                           "failed": [[*key, why] for key, why in self.failed.items()],
                           "figures": [[*key, value] for key, value in self.figures.items()]})

    @classmethod
    def load(cls, text):
        results, kept = cls(), json.loads(text)
        results.how = kept["how"]
        results.failed = {tuple(key): why for *key, why in kept["failed"]}
        results.figures = {tuple(key): value for *key, value in kept["figures"]}
        return results


def chosen(options):
    """(row, its programs) in the order of the tables."""
    for row, (_, all_programs) in programs.ROWS.items():
        if row in (options.rows or programs.ROWS):
            yield row, [program for program in all_programs
                        if program.group in (options.peers or programs.GROUPS)]


def measure(results, options):
    for repetition in range(options.repetitions):
        for row, of_row in chosen(options):
            for program in of_row[::1 if repetition % 2 == 0 else -1]:
                measure_one(results, options, row, program)
            results.how = host(options, repetition + 1)
            if options.keep:
                pathlib.Path(options.keep).write_text(results.dump(), encoding="utf-8")


def measure_one(results, options, row, program):
    try:
        figures = programs.run(program, row, options, results.gave_up(program.name, row))
    except (programs.Absent, json.JSONDecodeError) as error:
        results.failed[program.name, row] = str(error)
        print(f"{row}: {program.name}: {error}", file=sys.stderr, flush=True)
        return
    results.add(program.name, row, figures)
    print(f"{row}: {program.name}: {figures['cpu_us']:.3g} us CPU an element, "
          f"{figures['per_s']:.4g} elements/s", flush=True)


def make_files(options):
    if not programs.PYTHON.exists():
        sys.exit("There is no build/peers/loaders: run scripts/setup.sh loaders")
    subprocess.run([programs.PYTHON, programs.HERE / "files.py", options.data], check=True,
                   timeout=FILES_LIMIT_S, stdin=subprocess.DEVNULL)


# --- What is written ----------------------------------------------------------------------------


def digits(number):
    return "" if number is None else f"{float(f'{number:.3g}'):g}"


def count(number):
    """A large number, in three digits."""
    return "" if number is None else f"{int(float(f'{number:.3g}')):,}"


def line(cells):
    return "| " + " | ".join(cells) + " |"


def table(head, rows):
    return "\n".join([line(head), "| --- |" + " ---: |" * (len(head) - 1), *map(line, rows)])


def present(results, row):
    return [program for program in programs.ROWS[row][1] if (program.name, row) in results.figures]


def seconds(number):
    if number is None:
        return ""
    return f"{digits(number)} s" if number >= 1 else f"{digits(1000 * number)} ms"


def outage(results, name, row):
    """How long at most, and what became of the epoch."""
    runs = results.figures[name, row]
    if any(figures.get("failed") for figures in runs):
        return "the reader failed"
    hung = sum(bool(figures.get("hung")) for figures in runs)
    wrong = results.median(name, row, "wrong")
    said = seconds(results.longest(name, row, "outage_s"))
    if hung:
        looked = sum("hung" in figures for figures in runs)
        return f"{said}, then given up ({hung} of {looked} runs)"
    return said if wrong is None else f"{said}; {wrong:.0f} lost or doubled"


def service_table(results):
    head = ["through a service with 2 workers", "row", "CPU us an element", "elements/s",
            "first element, cold", "warm", "last element until the end is known",
            "longest outage when a worker is killed"]
    rows = []
    for row in ("range", "rounds"):
        for name in (program.name for program in present(results, row)):
            warm = results.median(name, row, "warm_s")
            rows.append([name, programs.ROWS[row][0], digits(results.median(name, row, "cpu_us")),
                         count(results.median(name, row, "per_s")),
                         seconds(results.median(name, row, "cold_s")),
                         seconds(warm if warm is not None else results.median(name, row, "first_s")),
                         seconds(results.median(name, row, "end_s")), outage(results, name, row)])
    return table(head, rows) if rows else ""


def small_table(results, row):
    head = [programs.ROWS[row][0], "CPU us an element", "of it the consumer's", "elements/s",
            "first batch"]
    rows = [[program.name, digits(results.median(program.name, row, "cpu_us")),
             digits(results.median(program.name, row, "consumer_cpu_us")),
             count(results.median(program.name, row, "per_s")),
             seconds(results.median(program.name, row, "first_s"))]
            for program in present(results, row)]
    return table(head, rows) if rows else ""


def arrays_table(results, row):
    head = [programs.ROWS[row][0], "CPU s/GB", "of it the consumer's", "GB/s", "first array"]
    rows = [[program.name, *(digits(results.median(program.name, row, key))
                             for key in ("cpu_s_per_gb", "consumer_cpu_s_per_gb", "gb_per_s")),
             seconds(results.median(program.name, row, "first_s"))]
            for program in present(results, row)]
    return table(head, rows) if rows else ""


def document(results):
    left_out = [f"Left out of \"{programs.ROWS[row][0]}\": {name}: {why}."
                for (name, row), why in results.failed.items()
                if (name, row) not in results.figures]
    reached = table(["goal", "result", "met?"], goals.all_goals(results))
    parts = [results.how, service_table(results), small_table(results, "windows"),
             small_table(results, "records"), arrays_table(results, "arrays"),
             arrays_table(results, "arrays-read"), *left_out, reached]
    return "\n\n".join(part for part in parts if part)


def model():
    for each in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if each.startswith("model name"):
            return each.split(":")[1].strip()
    return platform.machine()


def host(options, repetitions):
    times = "one repetition" if repetitions == 1 else f"{repetitions} repetitions"
    return (f"{os.cpu_count()} cores, {model()}, Linux {platform.release()}; one run, {times} of "
            f"{options.seconds:g} s a figure, at a load of {os.getloadavg()[1]:.0f} with that of "
            "others")


def write(path, text):
    path = pathlib.Path(path)
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=programs.ROWS, help="only these")
    parser.add_argument("--peers", nargs="+", choices=programs.GROUPS, help="only these")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each figure")
    parser.add_argument("--elements", type=int, default=1_000_000, help="of an epoch of `range`")
    parser.add_argument("--data", type=pathlib.Path, default=programs.ROOT / "build" / "bench-data",
                        help="where the files are, or are made")
    parser.add_argument("--document", help="write the tables between their marks in this file")
    parser.add_argument("--keep", help="write all figures into this file")
    parser.add_argument("--kept", help="do not measure: the figures of such a file")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # children end first
    results = Results()
    if options.kept:
        results = Results.load(pathlib.Path(options.kept).read_text(encoding="utf-8"))
    else:
        make_files(options)
        measure(results, options)
    text = document(results)
    print(text)
    if options.document:
        write(options.document, text)


if __name__ == "__main__":
    main()
