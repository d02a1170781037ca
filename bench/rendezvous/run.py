#!/usr/bin/env python3
"""Compares transfers between two processes of this host, in one run: what the machine gives, ours,
and what others give.

    ninja -C build/release rendezvous_bench limits_bench rendezvous_peers lockstep-server
    bench/rendezvous/run.py --document docs/performance.md

In every repetition the programs take turns, row by row. A figure is the median over the
repetitions. A program that is not installed or fails is left out, and the document says so. As
root it runs with real-time priority (as `chrt -r 5`), so that what else the host does does not
count. Pinned are bare programs and peers that ask for it; ours are not, since a process that may
run on one processor only does not spin.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import goals
import programs

KIB, MIB = 1 << 10, 1 << 20
ROUNDS = {8: 3000, 4 * KIB: 3000, 8 * KIB: 3000, 64 * KIB: 2000, MIB: 800, 16 * MIB: 40,
          256 * MIB: 14}
SMALL = (8, 4 * KIB, 8 * KIB)
LARGE = (64 * KIB, MIB, 16 * MIB, 256 * MIB)
PAUSED = (8, 4 * KIB)
PAUSED_ROUNDS = 200
CPU_AT = 16 * MIB
BEGIN, END = "<!-- bench/rendezvous: begin -->", "<!-- bench/rendezvous: end -->"

MEASUREMENTS = ([("ask", size) for size in (*SMALL, *LARGE)] +
                [("pause", size) for size in PAUSED] + [("stream", size) for size in LARGE])


def size_name(size):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


class Results:
    """All figures by program, shape and size; and who failed, with the first reason."""

    def __init__(self):
        self.figures = {}
        self.absent = {}
        self.how = ""  # and where

    def add(self, name, shape, size, figure):
        self.figures.setdefault((name, shape, size), []).append(figure)

    def median(self, name, shape, size, key="p50_us"):
        """None where there is none."""
        values = [figure[key] for figure in self.figures.get((name, shape, size), ())
                  if key in figure]
        return statistics.median(values) if values else None

    def rate(self, name, shape, size):
        """GB/s: of a stream by its whole time, else by the median time of one value."""
        if shape == "stream":
            return self.median(name, shape, size, "gb_per_s")
        us = self.median(name, shape, size)
        return None if us is None else size / us * 1e-3

    def dump(self):
        return json.dumps({"how": self.how, "absent": self.absent,
                           "figures": [[*key, value] for key, value in self.figures.items()]})

    @classmethod
    def load(cls, text):
        results, read = cls(), json.loads(text)
        results.how, results.absent = read["how"], read["absent"]
        results.figures = {tuple(key): value for *key, value in read["figures"]}
        return results


def measure(results, all_programs, repetitions, keep):
    """After each row all figures are written into the file `keep`."""
    for repetition in range(repetitions):
        for shape, size in MEASUREMENTS:
            for program in all_programs[::1 if repetition % 2 == 0 else -1]:
                if shape not in program.shapes or program.name in results.absent:
                    continue
                rounds = PAUSED_ROUNDS if shape == "pause" else ROUNDS[size]
                try:
                    figure = program.measure(shape, size, rounds)
                except (programs.Absent, json.JSONDecodeError) as error:
                    fail(results, program, shape, size, str(error))
                    continue
                results.add(program.name, shape, size, figure)
            print(f"repetition {repetition + 1}: {shape} {size_name(size)}", flush=True)
            results.how = host(repetition + 1)
            if keep:
                pathlib.Path(keep).write_text(results.dump(), encoding="utf-8")


def fail(results, program, shape, size, why):
    """Absent if it never worked; one failure among others is one figure less."""
    print(f"{program.name}, {shape} {size_name(size)}: {why}", file=sys.stderr)
    if not any(name == program.name for name, *_ in results.figures):
        results.absent[program.name] = why


def digits(number):
    return "" if number is None else f"{float(f'{number:.3g}'):g}"


def line(cells):
    return "| " + " | ".join(cells) + " |"


def asked_cell(results, program, size):
    us = results.median(program.name, "ask", size)
    if us is None:
        return ""
    if program.zero_copy or size < 64 * KIB:
        return digits(us)
    return f"{digits(us)} ({digits(results.rate(program.name, 'ask', size))})"


def tables(results, all_programs):
    present = [program for program in all_programs if program.name not in results.absent]
    asked = [line(["asked and answered; us (GB/s)", *map(size_name, SMALL),
                   *(f"{size_name(size)}, asleep" for size in PAUSED), *map(size_name, LARGE),
                   f"CPU s/GB at {size_name(CPU_AT)}"]),
             "| --- |" + " ---: |" * (len(SMALL) + len(PAUSED) + len(LARGE) + 1)]
    for program in present:
        asked.append(line([
            program.name, *(asked_cell(results, program, size) for size in SMALL),
            *(digits(results.median(program.name, "pause", size)) for size in PAUSED),
            *(asked_cell(results, program, size) for size in LARGE),
            digits(results.median(program.name, "ask", CPU_AT, "cpu_s_per_gb"))]))
    streamed = [line([f"in one direction, {programs.AHEAD} values under way; GB/s",
                      *map(size_name, LARGE), f"CPU s/GB at {size_name(CPU_AT)}"]),
                "| --- |" + " ---: |" * (len(LARGE) + 1)]
    for program in present:
        if "stream" in program.shapes:
            streamed.append(line([
                program.name,
                *(digits(results.rate(program.name, "stream", size)) for size in LARGE),
                digits(results.median(program.name, "stream", CPU_AT, "cpu_s_per_gb"))]))
    return "\n".join(asked), "\n".join(streamed)


def goal_table(results):
    lines = [line(["goal", "result", "met?"]), "| --- | --- | --- |"]
    return "\n".join(lines + [line(goal) for goal in goals.all_goals(results)])


def take_priority():
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))


def has_priority():
    return os.sched_getscheduler(0) == os.SCHED_RR


def model():
    for each in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if each.startswith("model name"):
            return each.split(":")[1].strip()
    return platform.machine()


def host(repetitions):
    # At the end, since somebody may have taken it away meanwhile.
    how = "with real-time priority" if has_priority() else "without real-time priority"
    return (f"{os.cpu_count()} cores, {model()}, Linux {platform.release()}; one run {how}, "
            f"{repetitions} repetitions, at a load of {os.getloadavg()[1]:.0f} with that of others")


def write(path, text):
    path = pathlib.Path(path)
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def measure_all(options):
    take_priority()
    server = programs.Server()
    results = Results()
    try:
        chosen = [program for program in programs.programs(server)
                  if not options.only or any(part in program.name for part in options.only)]
        measure(results, chosen, options.repetitions, options.keep)
    finally:
        server.end()
    return results, chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", action="append", help="only programs whose name contains this")
    parser.add_argument("--document", help="write the tables between their marks in this file")
    parser.add_argument("--keep", help="write all figures into this file")
    parser.add_argument("--kept", help="do not measure: the figures of such a file")
    options = parser.parse_args()
    if options.kept:
        results = Results.load(pathlib.Path(options.kept).read_text(encoding="utf-8"))
        chosen = programs.programs(server=None)
    else:
        results, chosen = measure_all(options)
    left_out = [f"Left out: {name}: {why}." for name, why in results.absent.items()]
    text = "\n\n".join([results.how, *tables(results, chosen), *left_out, goal_table(results)])
    print(text)
    if options.document:
        write(options.document, text)


if __name__ == "__main__":
    main()
