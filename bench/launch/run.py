#!/usr/bin/env python3
"""What `lockstep run` costs, and how soon a job trains again after a kill, beside torchrun's own restart.

    build/peers/frameworks/bin/python bench/launch/run.py --document docs/performance.md

Restarts: four ranks of a stock program of torch step; one is killed by SIGKILL. Steps: torch_digits and
jax_digits, unchanged, as bare processes and under `lockstep run`, on the same cores, in turns of a
fifth of a second (steps.py). At rest: what the launcher uses while four ranks sleep. Figures are
medians, with the smallest and the largest behind them; behind a ratio, where its median lies in 95 of
100 cases.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from document import machine, put_into, table  # noqa: E402
from programs import (LIMIT_S, LOCKSTEP, ROOT, Program, Trouble, children_of, cpu_of, ends_of,
                      memory_of)
from steps import compare, interval

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = HERE / "program.py"
SIZE = 4
# Of the steps that are compared: more of them than cores, and the scheduler's choices are all one sees.
TRAINERS = min(SIZE, len(os.sched_getaffinity(0)))
RESTART_LIMIT_S = 90   # from the kill until a restart counts as failed
TOLD_AIM_S, RESTART_AIM_S = 0.3, 2.0
HARM_AIM, MEMORY_AIM_MB, CPU_AIM = 0.005, 30, 0.001
FIRST_STEP = r"first step of rank (\d+) after {} restarts, pid (\d+): (\S+) (\S+) (\S+)"


class Figures:
    """Figures by name, in the order in which they first came."""

    def __init__(self):
        self.by_name = {}

    def add(self, name, value):
        self.by_name.setdefault(name, []).append(value)

    def median(self, name):
        return statistics.median(self.by_name[name])

    def cell(self, name, unit, digits=2):
        values = self.by_name.get(name)
        if not values:
            return "-"
        text = f"{self.median(name):.{digits}f} {unit}"
        return text + (f" ({min(values):.{digits}f}..{max(values):.{digits}f})" if len(values) > 1 else "")


# --- Restarts -----------------------------------------------------------------------------------


def first_steps(program, restarts, limit_s=LIMIT_S):
    """rank -> (pid, began, imported, stepped)."""
    found = program.find(FIRST_STEP.format(restarts), SIZE, limit_s)
    return {int(m[1]): (int(m[2]), float(m[3]), float(m[4]), float(m[5])) for _, m in found}


def last(steps, what):
    """When the last rank had it, of (pid, began, imported, stepped)."""
    return max(step[what] for step in steps.values())


class StatusWatch:
    """Asks `lockstep status` again and again until it says that the process has ended."""

    def __init__(self, address, pid):
        self.seen = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, args=(address, pid), daemon=True)
        self._thread.start()

    def _ask(self, address, pid):
        while not self._stop.is_set():
            answer = subprocess.run([LOCKSTEP, "status", "--coordinator", address, "-o", "json"],
                                    capture_output=True, text=True, timeout=LIMIT_S, check=False)
            try:
                members = [m for job in json.loads(answer.stdout)["jobs"] for m in job["members"]]
            except ValueError:
                continue
            if any(m["pid"] == pid and m["process"] == "failed" for m in members):
                self.seen = time.time()
                return
            self._stop.wait(0.01)

    def end(self):
        self._stop.set()
        self._thread.join(LIMIT_S)
        return self.seen


def kill_one(program, figures, victim, told_by, address=None):
    """Kills a rank that steps; what came of it goes into the figures. False: no restart."""
    before = first_steps(program, 0)
    group_before = last(before, 3) - last(before, 2)
    figures.add("own, at the start", last(before, 3) - last(before, 1))
    time.sleep(0.5)  # all step by then, and nothing else runs
    pid = before[victim][0]
    ends, watching = ends_of([step[0] for rank, step in before.items() if rank != victim])
    status = StatusWatch(address, pid) if address else None
    killed = time.time()
    os.kill(pid, signal.SIGKILL)
    try:
        (told, _), = program.find(told_by.format(pid=pid), 1, RESTART_LIMIT_S)
        figures.add("launcher says so", told - killed)
        after = first_steps(program, 1, RESTART_LIMIT_S)
    except Trouble as trouble:
        print(f"  {trouble}", file=sys.stderr)
        figures.add("failure", last_error(program) or f"no first step within {RESTART_LIMIT_S} s, and "
                                                      "no error")
        return False
    finally:
        seen = status.end() if status else None
    watching.join(LIMIT_S)
    if seen:
        figures.add("status says so", seen - killed)
    figures.add("the others ended", max(ends.values()) - killed)
    figures.add("all told", max([told, *ends.values(), *([seen] if seen else [])]) - killed)
    imports = last(after, 2) - last(after, 1)
    figures.add("first step", last(after, 3) - killed)
    figures.add("started", last(after, 1) - killed)
    figures.add("imports", imports)
    figures.add("group and step", last(after, 3) - last(after, 2))
    figures.add("beyond its own", last(after, 3) - killed - imports - group_before)
    return True


def last_error(program):
    """What torch itself said last; the launcher's own words tell less."""
    said = [line for _, line in program.lines if re.search(r"\w+(Error|Exception): ", line)]
    told = [line for line in said if "ChildFailedError" not in line]
    return re.sub(r"^\[.*?\]:|,? *(remote=)?\[127\.0\.0\.1\].*", "", (told or said or [""])[-1])


def restart_under_lockstep(figures, victim, cores):
    with Program(LOCKSTEP, "run", "-n", SIZE, "--max-restarts", 1, "--", sys.executable, PROGRAM,
                 cores=cores) as program:
        address = program.find(r"coordinator (\S+) \(started for this run\)")[0][1][1]
        figures.add("restarted", kill_one(program, figures, victim,
                                          r"lockstep run: .*\(pid {pid}\) was killed by SIGKILL",
                                          address))


def restart_under_torchrun(figures, victim, cores):
    with Program(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                 SIZE, "--max-restarts", 1, PROGRAM, cores=cores) as program:
        figures.add("restarted", kill_one(program, figures, victim, r"exitcode: -9.*pid: {pid}"))


RESTARTS = (("lockstep run", restart_under_lockstep), ("torchrun", restart_under_torchrun))
RESTART_ROWS = (
    ("until the launcher says which rank was killed", "launcher says so"),
    ("until `lockstep status` says so", "status says so"),
    ("until the last of the other processes has ended", "the others ended"),
    ("**until everybody is told** (the last of these)", "all told"),
    ("until the last process of the next attempt is started", "started"),
    ("from then until all have imported torch", "imports"),
    ("from then until all have made their group and a step", "group and step"),
    ("**until the first step of the next attempt**", "first step"),
    ("before the kill: from the start of the processes to the first step", "own, at the start"),
    ("**until the first step, beyond importing torch now and making a group then**", "beyond its own"),
)


def measure_restarts(repetitions, cores):
    figures = {name: Figures() for name, _ in RESTARTS}
    for repetition in range(repetitions):
        victim = repetition % SIZE
        for name, measure in RESTARTS if repetition % 2 == 0 else RESTARTS[::-1]:
            measure(figures[name], victim, cores)
            print(f"  restart {repetition + 1}, rank {victim}, {name}: "
                  + ", ".join(f"{what} {values[-1]:.2f}" for what, values in
                              figures[name].by_name.items() if isinstance(values[-1], float)), flush=True)
    return figures


def restart_table(figures):
    names = [name for name, _ in RESTARTS]
    rows = [["after `kill -9` of one of four ranks", *names]]
    rows += [[text, *(figures[name].cell(key, "s") for name in names)] for text, key in RESTART_ROWS]
    rows.append(["restarts that came to a first step", *(
        f"{sum(figures[name].by_name['restarted'])} of {len(figures[name].by_name['restarted'])}"
        for name in names)])
    notes = [f"{name}: {failure}" for name in names
             for failure in dict.fromkeys(figures[name].by_name.get("failure", []))]
    return rows, notes


# --- Steps --------------------------------------------------------------------------------------


def measure_steps(name, python, options, cores):
    figures = Figures()
    steps, ratios, share = compare(f"{name}.py", python, TRAINERS, options.pairs, options.slice, cores)
    for kind, found in (*steps.items(), ("ratio", ratios)):
        for one in found:
            figures.add(kind, one)
    figures.add("share", share)
    print(f"  {name}: ratio {figures.median('ratio'):.4f} of {len(ratios)} pairs", flush=True)
    return figures


def step_table(by_example):
    rows = [["a step of", "bare", "under `lockstep run`", "ratio: median of the pairs",
             "Lockstep's CPU time"]]
    for name, figures in by_example.items():
        low, high = interval(figures.by_name["ratio"])
        rows.append([f"{name}, {TRAINERS} ranks", f"{figures.median('bare'):.0f} us",
                     f"{figures.median('run'):.0f} us",
                     f"{figures.median('ratio'):.4f} ({low:.4f}..{high:.4f})",
                     f"{figures.median('share') * 100:.3f} % of a core"])
    return rows


# --- At rest ------------------------------------------------------------------------------------


def at_rest(seconds, coordinator):
    """(who, RSS, PSS, share of a core) of each of our processes while four ranks sleep."""
    where = ["--coordinator", coordinator] if coordinator else []
    with Program(LOCKSTEP, "run", "-n", SIZE, *where, "--", sys.executable, "-c",
                 "print('up', flush=True); import time; time.sleep(10**6)") as program:
        program.find(r"\] up$", SIZE)
        time.sleep(2)  # what a start leaves to be done
        ours = {"launcher": program.pid}
        for pid, name in children_of(program.pid):
            if "lockstep" in name:
                ours["its server" if "server" in name else "its guardian"] = pid
        used = {who: cpu_of(pid) for who, pid in ours.items()}
        began = time.time()
        time.sleep(seconds)
        took = time.time() - began
        return [(who, *memory_of(pid), (cpu_of(pid) - used[who]) / took) for who, pid in ours.items()]


def rest_table(seconds):
    rows = [["at rest, four ranks", "RSS", "PSS", "CPU time"]]
    with Program(LOCKSTEP, "serve", "--ephemeral", "--listen", "127.0.0.1:0", "--job",
                 f"rest={SIZE}") as server:
        address = server.find(r"\b(127\.0\.0\.1:\d+)")[0][1][1]
        for title, coordinator in (("with a server of its own", None), ("at another server", address)):
            for who, rss, pss, share in at_rest(seconds, coordinator):
                rows.append([f"{who}, {title}", f"{rss:.1f} MB", f"{pss:.1f} MB",
                             f"{share * 100:.3f} % of a core"])
    return rows


# --- The document -------------------------------------------------------------------------------

def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--restarts", type=int, default=8, metavar="N", help="repetitions")
    parser.add_argument("--pairs", type=int, default=600, metavar="N",
                        help="of slices whose steps are compared")
    parser.add_argument("--slice", type=float, default=0.2, metavar="SECONDS", help="each of these")
    parser.add_argument("--rest", type=float, default=60, metavar="SECONDS")
    parser.add_argument("--jax", type=pathlib.Path, metavar="PYTHON", help="that has JAX",
                        default=ROOT / "build" / "peers" / "jax" / "bin" / "python")
    parser.add_argument("--cores", type=int, default=SIZE, help="all run on the first so many")
    parser.add_argument("--document", type=pathlib.Path, metavar="FILE",
                        help="a Markdown file whose tables are replaced by this run's")
    return parser.parse_args()


def aims(restarts, steps, rest):
    """(holds, what) of each aim that was measured."""
    if restarts:
        ours = restarts["lockstep run"]
        yield ours.median("all told") <= TOLD_AIM_S, f"everybody is told within {TOLD_AIM_S} s"
        yield ours.median("beyond its own") <= RESTART_AIM_S, \
            f"the next first step takes {RESTART_AIM_S} s more than the program does"
    for name, figures in steps.items():
        yield figures.median("ratio") <= 1 + HARM_AIM, f"{name}: at most {HARM_AIM:.1%} above bare"
    for who, rss, _, cpu in rest[1:]:
        if who.startswith("launcher"):
            yield float(rss.split()[0]) <= MEMORY_AIM_MB, f"{who}: at most {MEMORY_AIM_MB} MB"
            yield float(cpu.split()[0]) < CPU_AIM * 100, f"{who}: under {CPU_AIM:.1%} of a core"


def main():
    options = arguments()
    cores = set(sorted(os.sched_getaffinity(0))[:options.cores])
    print(f"{machine()}; load {os.getloadavg()[0]:.1f}", flush=True)
    text, restarts, steps, rest = [machine() + "\n"], {}, {}, []
    if options.restarts:
        restarts = measure_restarts(options.restarts, cores)
        rows, notes = restart_table(restarts)
        text.append(table(rows))
        text += [f"How a restart failed: {note}\n" for note in notes]
    if options.pairs:
        for name, python in (("torch_digits", sys.executable), ("jax_digits", options.jax)):
            steps[name] = measure_steps(name, python, options, cores)
        text.append(table(step_table(steps)))
    if options.rest:
        rest = rest_table(options.rest)
        text.append(table(rest))
    print("\n" + "\n".join(text))
    for holds, what in aims(restarts, steps, rest):
        print(f"  {'ok    ' if holds else 'MISSED'}  {what}")
    if options.document:
        put_into(options.document, "bench/launch", "\n".join(text))


if __name__ == "__main__":
    main()
