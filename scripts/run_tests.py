#!/usr/bin/python3
"""Runs the stages of scripts/test.sh and counts every test case in them.

A GoogleTest case, a pytest case, a lint and a simulation run each count as one. A program that
crashes, hangs past its limit or fails to build counts as one failure more. No terminal is needed.
Progress goes to stdout, one line a stage; details of failures follow at once; everything else is
in build/test-logs/.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOGS = BUILD / "test-logs"
JAX_PYTHON = BUILD / "peers" / "jax" / "bin" / "python"
OUR_PYTHON = BUILD / "venv" / "bin" / "python"
CORES = os.cpu_count() or 1

SIM_SEEDS = 200
SIM_LIMIT_S = 300
PYTEST_LIMIT_S = 1800
WHEEL_LIMIT_S = 900
CLANG_LIMIT_S = 1800
BUILD_LIMIT_S = 3600
# With LOCKSTEP_TEST_MINUTES set, as CI does: a sanitizer's stage that would begin later does not
# run, and the run says so. Nor is its preset built when more than its share of that time (SANITIZERS)
# was gone before the build could begin, as without a compiler cache: it would end too late, and slow
# down what runs beside it.
TEST_MINUTES = float(os.environ.get("LOCKSTEP_TEST_MINUTES", "inf"))
TAIL_LINES = 40
# Of a test program that died, and of its last test only: as long as a sanitizer's report.
CRASH_LINES = 150


@dataclasses.dataclass
class Tally:
    """What a stage came to. `failures` are names with what there is to read about them."""

    passed: int = 0
    skipped: int = 0
    failures: list = dataclasses.field(default_factory=list)

    def add(self, other):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failures += other.failures

    def fail(self, name, text=""):
        self.failures.append((name, text))

    @property
    def empty(self):
        return not (self.passed or self.skipped or self.failures)

    def __str__(self):
        text = f"{self.passed} passed, {len(self.failures)} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


def tail(path, lines=TAIL_LINES):
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def run(command, log, limit_s, env=None, cwd=ROOT):
    """Runs to the end or the limit, in a process group of its own; returns (exit code, why)."""
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, cwd=cwd,
                                   stderr=subprocess.STDOUT, env={**os.environ, **(env or {})},
                                   start_new_session=True)
        try:
            code = process.wait(limit_s)
            why = ""
        except subprocess.TimeoutExpired:
            code, why = -signal.SIGKILL, f"did not end within {limit_s} s"
        finally:
            # What a test leaves behind must not live on beside the next one.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    if not why and code < 0:
        why = f"killed by {signal.Signals(-code).name}"
    elif not why and code > 0:
        why = f"exit code {code}"
    return code, why


def build(preset, targets):
    """Builds targets of a preset, or all, by scripts/setup.sh; its lines show what took how long."""
    try:
        return subprocess.run([str(ROOT / "scripts" / "setup.sh"), "build", preset, *targets],
                              stdin=subprocess.DEVNULL, timeout=BUILD_LIMIT_S,
                              check=False).returncode == 0
    except subprocess.TimeoutExpired:
        print(f"not built within {BUILD_LIMIT_S} s")
        return False


class BuildAhead:
    """Builds presets, in order, with what the stages before them leave of the processors.

    The build yields to those stages: it has the lowest priority, within its group of processes and,
    where the kernel has such, as a group.
    """

    def __init__(self, presets):
        self._log = LOGS / "build-ahead.log"
        self._done = LOGS / "build-ahead.done"
        self._done.write_text("")
        self._shown = 0
        steps = f"""[ ! -w /proc/self/autogroup ] || echo 19 >/proc/self/autogroup
            for preset; do
              scripts/setup.sh build "$preset"
              echo "$preset" >>{self._done}
            done"""
        with open(self._log, "wb") as out:
            self._process = subprocess.Popen(["nice", "-n", "19", "bash", "-c", steps, "-", *presets],
                                             stdin=subprocess.DEVNULL, stdout=out,
                                             stderr=subprocess.STDOUT, cwd=ROOT,
                                             start_new_session=True)

    def wait_for(self, preset, limit_s):
        """Until its build has ended, well or not: whoever needs it builds it again, and hears why.
        False when it has not by then."""
        until = time.monotonic() + min(limit_s, BUILD_LIMIT_S)
        while not self._is_done(preset) and time.monotonic() < until and self._process.poll() is None:
            time.sleep(1)
        text = self._log.read_text(errors="replace")
        print(text[self._shown:], end="")
        self._shown = len(text)
        return self._is_done(preset)

    def _is_done(self, preset):
        return preset in self._done.read_text().split()

    def end(self):
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def fixed_addresses():
    """A command prefix that turns off address randomisation, which sanitizers may need.

    The thread sanitizer of gcc 12 gives up on kernels that randomise more bits than it knows of.
    """
    prefix = ["setarch", platform.machine(), "-R"]
    try:
        works = subprocess.run(prefix + ["true"], capture_output=True, check=False).returncode == 0
    except OSError:
        works = False
    return prefix if works else []


# --- C++ tests, as ctest knows them -------------------------------------------------------------


@dataclasses.dataclass
class CTest:
    name: str
    command: list
    labels: list
    limit_s: float
    env: dict
    cwd: str


def ctests(preset):
    listing = subprocess.run(["ctest", "--test-dir", str(BUILD / preset), "--show-only=json-v1"],
                             capture_output=True, text=True, check=True).stdout
    found = []
    for test in json.loads(listing)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        found.append(CTest(
            name=test["name"],
            command=test.get("command", []),
            labels=properties.get("LABELS", []),
            limit_s=float(properties.get("TIMEOUT", 600)),
            env=dict(v.split("=", 1) for v in properties.get("ENVIRONMENT", [])),
            cwd=properties.get("WORKING_DIRECTORY", str(BUILD / preset))))
    return found


def is_googletest(test):
    return any(argument.startswith("--gtest") for argument in test.command)


def run_googletest(test, stage, prefix, name_filter, env):
    tally = Tally()
    log = LOGS / f"{stage}-{test.name}.log"
    report = LOGS / f"{stage}-{test.name}.json"
    report.unlink(missing_ok=True)
    command = prefix + test.command[:1] + [f"--gtest_output=json:{report}"]
    if name_filter and name_filter not in test.name:
        command.append(f"--gtest_filter=*{name_filter}*")
    code, why = run(command, log, test.limit_s, {**env, **test.env}, test.cwd)
    try:
        suites = json.loads(report.read_text())["testsuites"]
    except (OSError, ValueError, KeyError):
        # It died before it could report: what had passed is in its output.
        lines = log.read_text(errors="replace").splitlines()
        tally.passed = sum(line.startswith("[       OK ]") for line in lines)
        begins = [at for at, line in enumerate(lines) if line.startswith("[ RUN      ]")]
        last = lines[begins[-1]][12:].strip() if begins else "before the first test"
        its_lines = lines[begins[-1] + 1:] if begins else lines
        tally.fail(f"{test.name}: {last}: {why or 'no report'}",
                   "\n".join(its_lines[-CRASH_LINES:]))
        return tally
    for suite in suites:
        for case in suite["testsuite"]:
            name = f"{test.name}: {suite['name']}.{case['name']}"
            if case.get("failures"):
                tally.fail(name, "\n".join(f["failure"] for f in case["failures"]))
            elif case.get("result") == "SKIPPED":
                tally.skipped += 1
            elif case.get("status") == "RUN":
                tally.passed += 1
    if code != 0 and not tally.failures:
        tally.fail(f"{test.name}: {why} after its tests", tail(log))
    return tally


def run_command_test(test, stage, prefix, env):
    tally = Tally()
    log = LOGS / f"{stage}-{test.name}.log"
    code, why = run(prefix + test.command, log, test.limit_s, {**env, **test.env}, test.cwd)
    if code == 0:
        tally.passed += 1
    else:
        tally.fail(f"{test.name}: {why}", tail(log))
    return tally


def run_ctests(stage, tests, prefix=(), name_filter="", env=None):
    """Runs the tests, as many at a time as there are cores."""
    prefix, env = list(prefix), env or {}

    def one(test):
        if not test.command:
            return Tally(failures=[(f"{test.name}: its program was not built", "")])
        if is_googletest(test):
            return run_googletest(test, stage, prefix, name_filter, env)
        if name_filter and name_filter not in test.name:
            return Tally()
        return run_command_test(test, stage, prefix, env)

    total = Tally()
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        for tally in pool.map(one, tests):
            total.add(tally)
    return total


# --- The stages ---------------------------------------------------------------------------------


def stage_lint(name_filter):
    tally = set_up("lint", "linters", "clang-format cannot be installed")
    tally.add(run_ctests("lint", [t for t in ctests("release") if "lint" in t.labels],
                         name_filter=name_filter))
    return tally


def run_clang(stage, name_filter):
    """A script that has clang look at the sources, as the release preset compiles them."""
    name = f"scripts/check_{stage}.py"
    if name_filter and name_filter not in name:
        return Tally()
    tally = set_up(stage, "linters", "clang cannot be installed")
    test = CTest(f"check_{stage}", ["/usr/bin/python3", str(ROOT / name)], [], CLANG_LIMIT_S, {},
                 str(ROOT))
    tally.add(run_command_test(test, stage, [], {}))
    return tally


def stage_threads(name_filter):
    return run_clang("threads", name_filter)


def stage_tidy(name_filter):
    return run_clang("tidy", name_filter)


def stage_unit(name_filter):
    return run_ctests("unit", [t for t in ctests("release") if "lint" not in t.labels],
                      name_filter=name_filter)


def stage_asan(name_filter):
    tests = [t for t in ctests("asan") if "lint" not in t.labels]
    return run_ctests("asan", tests,
                      fixed_addresses(), name_filter,
                      {"UBSAN_OPTIONS": "print_stacktrace=1", "ASAN_OPTIONS": "abort_on_error=1"})


def stage_tsan(name_filter):
    # Simulations have one thread each, and are slow here; asan runs them.
    tests = [t for t in ctests("tsan") if not {"lint", "sim"} & set(t.labels)]
    return run_ctests("tsan", tests,
                      fixed_addresses(), name_filter,
                      {"TSAN_OPTIONS": "halt_on_error=1 second_deadlock_stack=1"})


def stage_sim(name_filter):
    name = f"lockstep_sim --seeds={SIM_SEEDS}"
    if name_filter and name_filter not in name:
        return Tally()
    test = CTest("lockstep_sim", [str(BUILD / "bin" / "lockstep_sim"), f"--seeds={SIM_SEEDS}"], [],
                 SIM_LIMIT_S, {}, str(ROOT))
    return run_command_test(test, "sim", [], {})


def run_pytest(stage, folder, name_filter, python=JAX_PYTHON):
    tally = Tally()
    log, report = LOGS / f"{stage}.log", LOGS / f"{stage}.xml"
    report.unlink(missing_ok=True)
    command = [str(python), "-m", "pytest", str(ROOT / folder), "-q", "-rfEs",
               "-p", "no:cacheprovider", f"--junitxml={report}"]
    if name_filter:
        command += ["-k", name_filter]
    # A program that crashes says where each of its Python threads was.
    code, why = run(command, log, PYTEST_LIMIT_S, {"PYTHONFAULTHANDLER": "1"})
    if code == 5 and name_filter:  # pytest's way of saying that nothing matched
        return tally
    try:
        cases = list(xml.etree.ElementTree.parse(report).getroot().iter("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError):
        tally.fail(f"{folder}: pytest: {why or 'no report'}", tail(log))
        return tally
    for case in cases:
        bad = [child for child in case if child.tag in ("failure", "error")]
        if bad:
            tally.fail(f"{case.get('classname')}.{case.get('name')}", bad[0].text or "")
        elif case.find("skipped") is not None:
            tally.skipped += 1
        else:
            tally.passed += 1
    if code != 0 and not tally.failures:
        tally.fail(f"{folder}: pytest: {why}", tail(log))
    return tally


def set_up(stage, what, missing):
    """What tests of the stage need, and would be skipped without."""
    tally = Tally()
    if subprocess.run([str(ROOT / "scripts" / "setup.sh"), what], stdin=subprocess.DEVNULL,
                      timeout=BUILD_LIMIT_S, check=False).returncode != 0:
        tally.fail(f"{stage}: {missing}")
    return tally


def make_frameworks(stage):
    """torch, tensorflow and jax in one environment."""
    return set_up(stage, "frameworks", "build/peers/frameworks cannot be made")


def stage_interop(name_filter):
    tally = make_frameworks("interop")
    tally.add(run_pytest("interop", "tests/interop", name_filter))
    return tally


def stage_python(name_filter):
    tally = make_frameworks("python")
    tally.add(run_pytest("python", "tests/python", name_filter, OUR_PYTHON))
    return tally


def stage_cluster(name_filter):
    return run_pytest("cluster", "tests/cluster", name_filter)


def stage_wheel(name_filter):
    name = "scripts/wheel.sh"
    if name_filter and name_filter not in name:
        return Tally()
    test = CTest("wheel", [str(ROOT / name)], [], WHEEL_LIMIT_S, {}, str(ROOT))
    return run_command_test(test, "wheel", [], {})


def stage_e2e(name_filter):
    tally = make_frameworks("e2e")
    tally.add(set_up("e2e", "schedulers", "Open MPI and Slurm cannot be installed"))
    tally.add(run_pytest("e2e", "tests/e2e", name_filter))
    return tally


@dataclasses.dataclass
class Stage:
    """`preset`: what it needs built, `targets` of it or everything."""

    name: str
    preset: str
    targets: list
    function: object


MESSAGES = ["lockstep_messages"]  # what the lints and clang read, besides the sources
PROGRAMS = ["lockstep", "lockstep-agent", "lockstep-server", "lockstep_python"]
# Python's tests need only the programs, and leave a third of the processors idle: they come first, and
# the C++ tests are compiled beside them.
STAGES = [
    Stage("lint", "release", MESSAGES, stage_lint),
    Stage("python", "release", PROGRAMS, stage_python),
    Stage("interop", "release", PROGRAMS, stage_interop),
    Stage("e2e", "release", PROGRAMS, stage_e2e),
    Stage("cluster", "release", PROGRAMS, stage_cluster),
    Stage("unit", "release", [], stage_unit),
    Stage("sim", "release", [], stage_sim),
    Stage("threads", "release", MESSAGES, stage_threads),
    Stage("tidy", "release", MESSAGES, stage_tidy),
    # In the folder of the release build: nothing else may be built there at the same time.
    Stage("wheel", "release", [], stage_wheel),
    Stage("tsan", "tsan", [], stage_tsan),
    Stage("asan", "asan", [], stage_asan),
]
# By stage: the share of LOCKSTEP_TEST_MINUTES within which its build must be able to begin. What asan
# builds, gRPC's users included, takes over an hour on two cores; tsan a third of that.
SANITIZERS = {"tsan": 1 / 3, "asan": 1 / 12}
BUILD_AHEAD_FROM = "python"


class Presets:
    """Builds what stages need, in the background too, but never two things at a time in one folder."""

    def __init__(self):
        self._built = {}  # whether it did build, by preset and targets
        self._in_background = ()
        self._ahead = None

    def build(self, stage):
        """False when what the stage needs does not build."""
        needs = (stage.preset, *stage.targets)
        if needs not in self._built:
            if not stage.targets:
                self.wait_for(stage.preset, BUILD_LIMIT_S)
            self._built[needs] = build(stage.preset, stage.targets)
        return self._built[needs]

    def build_ahead(self, presets):
        """In the background. Until `wait_for`, stages may need only targets that are built already."""
        self._in_background = presets
        self._ahead = BuildAhead(presets)

    def wait_for(self, preset, limit_s):
        """True when it was built in the background, well or not, within that time."""
        if preset not in self._in_background:
            return False
        done = self._ahead.wait_for(preset, limit_s)
        if not done:
            self.end()
        return done

    def end(self):
        if self._ahead:
            self._ahead.end()


def run_stage(stage, name_filter, presets):
    if not presets.build(stage):
        return Tally(failures=[(f"{stage.name}: preset {stage.preset} does not build", "")])
    try:
        return stage.function(name_filter)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return Tally(failures=[(f"{stage.name}: {type(error).__name__}: {error}", "")])


def show_names(tally):
    """Once more, behind what may be long."""
    for name, _ in tally.failures:
        print(f"FAILED {name}")


def show_failures(tally):
    for name, text in tally.failures:
        print(f"\nFAILED {name}")
        if text:
            print(re.sub(r"^", "    ", text.rstrip(), flags=re.MULTILINE))
    if tally.failures:
        print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("filter", nargs="?", default="",
                        help="a stage (%s), or part of a test's name" %
                        ", ".join(s.name for s in STAGES))
    what = parser.parse_args().filter
    LOGS.mkdir(parents=True, exist_ok=True)
    sys.stdout.reconfigure(line_buffering=True)

    by_stage = [s for s in STAGES if s.name == what]
    stages = by_stage or [s for s in STAGES if not what or s.name not in SANITIZERS]
    name_filter = "" if by_stage else what

    total, presets, began = Tally(), Presets(), time.monotonic()

    def spent_min():
        return (time.monotonic() - began) / 60

    def is_in_time(stage):
        """Whether a sanitizer's stage may begin, when all stages run."""
        built = presets.wait_for(stage.preset, (TEST_MINUTES - spent_min()) * 60)
        return built and spent_min() < TEST_MINUTES

    try:
        for stage in stages:
            start = time.monotonic()
            if not what and stage.name == BUILD_AHEAD_FROM and presets.build(stage):
                in_time = [name for name, share in SANITIZERS.items()
                           if spent_min() < TEST_MINUTES * share]
                presets.build_ahead(["release", *in_time])
            if not what and stage.name in SANITIZERS and not is_in_time(stage):
                print(f"  {stage.name:<44}not run: no time for it within {TEST_MINUTES:.0f} minutes; "
                      f"scripts/test.sh {stage.name} runs it")
                total.skipped += 1
                continue
            tally = run_stage(stage, name_filter, presets)
            if not (name_filter and tally.empty):
                print(f"  {stage.name:<44}{time.monotonic() - start:5.0f} s   {tally}")
            show_failures(tally)
            total.add(tally)
    finally:
        presets.end()
    print(f"  {'all':<44}{time.monotonic() - began:5.0f} s")
    show_names(total)
    if total.empty:
        print(f"Nothing named {what!r} was found." if name_filter else "No test was found.")
    print(total)
    return 0 if total.passed and not total.failures else 1


if __name__ == "__main__":
    sys.exit(main())
