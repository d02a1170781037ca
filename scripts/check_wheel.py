#!/usr/bin/python3
"""Checks a repaired wheel as its users will meet it: on a machine without our Debian packages.

    scripts/check_wheel.py WHEEL           installs it, starts its server, joins, runs its programs
    scripts/check_wheel.py WHEEL --demo    and has it run scripts/demo.py, beside stock JAX

Runs in a mount namespace of its own, in which every file of the packages in HIDDEN is gone: an
overlay over /usr with a whiteout for each. It takes root, or a kernel that gives users namespaces;
where there is neither, as in most containers, it says so, and they stay. In either case what is
loaded is told by the dynamic linker's own record: nothing may come from outside the wheel but the C
and C++ runtime, and what Debian's python3 loads for itself. Exit code 1 with the breaches.
"""

import argparse
import contextlib
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
JAX = ROOT / "tests" / "interop" / "requirements.txt"
TORCH = ROOT / "tests" / "interop" / "requirements-torch.txt"
DEMO_LIMIT_S = 900

# What scripts/setup.sh installs that a wheel could lean on, with what belongs to it.
HIDDEN = re.compile(r"(libgrpc|libprotobuf|libprotoc|protobuf-compiler|libabsl|libasio|libprotozero"
                    r"|libre2|libc-ares|libspdlog|libfmt|libyaml-cpp|libcpp-httplib|libprometheus-cpp"
                    r"|libcivetweb|nlohmann-json|libcli11|libgtest|libgmock|googletest)")
# One file of each that the issue is about: to see that hiding works.
GONE = ("/usr/lib/x86_64-linux-gnu/libgrpc++.so.1.51", "/usr/lib/x86_64-linux-gnu/libprotobuf.so.32",
        "/usr/include/absl/base/options.h", "/usr/include/asio.hpp")

# Of the system, by the manylinux policy: libc and its parts, libstdc++, libgcc, zlib.
SYSTEM = ("linux-vdso.so", "ld-linux-x86-64.so", "libc.so", "libm.so", "libstdc++.so", "libgcc_s.so",
          "libpthread.so", "libdl.so", "librt.so", "libutil.so", "libnss_", "libresolv.so", "libz.so")
# Loaded by Debian's python3 itself, or by modules of its own.
OF_PYTHON = ("libexpat.so", "libcrypto.so", "libssl.so", "libffi.so", "libbz2.so",
             "liblzma.so", "libuuid.so", "libsqlite3.so", "libmpdec.so", "libreadline.so",
             "libtinfo.so")
# What nobody may load from anywhere but the wheel, whatever else a program loads.
OURS = ("libgrpc", "libgpr", "libprotobuf", "libabsl", "libupb", "libaddress_sorting")
PROGRAM = """
    import json, subprocess, sys, threading
    import lockstep
    with lockstep.serve(jobs={"digits": 1}) as server:
        with lockstep.join(server.address, job="digits", timeout=60) as me:
            me.barrier("loaded", timeout=60)
            me.kv.set("a", b"1")
            assert me.gather("b", me.kv.get("a"), timeout=60) == [b"1"]
        status = subprocess.run([sys.prefix + "/bin/lockstep", "status", "--coordinator",
                                 server.address, "-o", "json"], stdout=subprocess.PIPE, check=True)
        json.loads(status.stdout)
    print("works:", lockstep.__file__)
"""


# --- Out of reach -------------------------------------------------------------------------------


def run_in_namespace():
    """Runs this program again where what it mounts is seen by nobody else; its exit code."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    unshare, hides = ["unshare", *user, "--mount"], ["--hide"]
    may = subprocess.run([*unshare, "true"], capture_output=True, text=True, check=False)
    if may.returncode != 0:
        print(f"Debian's packages stay within reach: {may.stderr.strip()}", flush=True)
        unshare, hides = [], []
    with tempfile.TemporaryDirectory(prefix="lockstep-wheel-") as folder:
        return subprocess.run([*unshare, sys.executable, *sys.argv, "--folder", folder, *hides],
                              check=False).returncode


def hidden_files():
    """Every file of the packages in HIDDEN."""
    listing = subprocess.run(["dpkg-query", "-W", "-f", "${binary:Package} ${db:Status-Status}\n"],
                             capture_output=True, text=True, check=True).stdout
    packages = [name for name, status in map(str.split, listing.splitlines())
                if status == "installed" and HIDDEN.match(name)]
    if not packages:
        return []
    names = subprocess.run(["dpkg", "-L", *packages], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    # /lib is a link to /usr/lib, and dpkg may know a file by either name.
    real = {os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name))
            for name in names if name.startswith("/")}
    return sorted(name for name in real
                  if name.startswith("/usr/") and (os.path.islink(name) or os.path.isfile(name)))


def hide(files, folder):
    """Mounts an overlay over /usr in which the files are not there."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "lockstep", str(folder)], check=True)
    upper, work = folder / "upper", folder / "work"
    upper.mkdir()
    work.mkdir()
    for name in files:
        whiteout = upper / os.path.relpath(name, "/usr")
        whiteout.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(whiteout, stat.S_IFCHR, os.makedev(0, 0))
    subprocess.run(["mount", "-t", "overlay", "lockstep", "-o",
                    f"lowerdir=/usr,upperdir={upper},workdir={work}", "/usr"], check=True)
    left = [name for name in [*files, *GONE] if os.path.lexists(name)]
    if left:
        sys.exit(f"{left[0]} could not be hidden")
    print(f"{len(files)} files of Debian's packages are out of reach")


# --- What was loaded ----------------------------------------------------------------------------


class Record:
    """Has the dynamic linker write down, for each process, which libraries it loaded."""

    def __init__(self, folder):
        self.folder = folder
        self.folder.mkdir()
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder.parent), "LD_DEBUG": "libs",
                            "LD_DEBUG_OUTPUT": str(folder / "of")}

    def programs(self):
        """(program, library) of everything; one process may become several programs."""
        found = set()
        for log in self.folder.iterdir():
            program, libraries = "", set()
            for line in log.read_text(errors="replace").splitlines():
                _, told, library = line.partition("calling init: ")
                # The linker itself comes first of each program.
                if told and "/ld-linux" in library:
                    found |= {(program, one) for one in libraries}
                    program, libraries = "", set()
                if told:
                    libraries.add(library.strip())
                elif "initialize program: " in line:
                    program = line.partition("initialize program: ")[2].strip()
            found |= {(program, one) for one in libraries}
        return found


def breaches(loaded, environment):
    """What was loaded from outside the environment and is not of the system."""
    inside = os.path.realpath(environment) + "/"
    for program, library in sorted(loaded):
        name, of_what = os.path.basename(library), os.path.basename(program)
        of_python = of_what.startswith("python")
        if os.path.realpath(library).startswith(inside):
            continue
        if name.startswith(OURS):
            yield f"{program} loads {library}, which is not the wheel's"
        elif of_python and (name.startswith(OF_PYTHON) or "/python3" in library):
            continue
        # Not ours to judge: tools that processes start, such as uname.
        elif not name.startswith(SYSTEM) and (of_python or of_what.startswith("lockstep")):
            yield f"{program} loads {library}, which is neither in the wheel nor of the system"


def dependencies(environment):
    """By ldd, of the programs and the extension: (file, line) of what is not found."""
    package = next(environment.glob("lib/python3*/site-packages/lockstep"))
    for path in [*package.glob("_native*.so"), *(package / "bin").iterdir()]:
        text = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=True).stdout
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        print(f"  {path.name}: {len(lines)} libraries by ldd, "
              f"{sum(str(environment) in line for line in lines)} of them from the wheel")
        yield from ((path.name, line) for line in lines if "not found" in line)


def symbols(environment):
    """What the extension shows to other libraries of its process but its init."""
    extension = next(environment.glob("lib/python3*/site-packages/lockstep/_native*.so"))
    listing = subprocess.run(["nm", "-D", "--defined-only", str(extension)], capture_output=True,
                             text=True, check=True).stdout
    return [line for line in listing.splitlines() if line.split()[-1] != "PyInit__native"]


# --- The check ----------------------------------------------------------------------------------


@contextlib.contextmanager
def timed(text):
    began = time.monotonic()
    yield
    print(f"  {text:<44}{time.monotonic() - began:5.1f} s", flush=True)


def install(environment, wheel, requirements):
    subprocess.run(["/usr/bin/python3", "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-index", str(wheel)], check=True)
    if requirements:
        subprocess.run([*pip, *(word for file in requirements for word in ("-r", str(file)))], check=True)


def check(wheel, folder, demo):
    environment = folder / "venv"
    with timed("installed into a fresh environment"):
        install(environment, wheel, [JAX, TORCH] if demo else [])
    for file, line in dependencies(environment):
        yield f"{file}: {line}"
    for symbol in symbols(environment):
        yield f"the extension exports {symbol}"
    python = str(environment / "bin" / "python")
    record = Record(folder / "loaded")
    commands = {"a program that serves, joins, asks": [python, "-c", textwrap.dedent(PROGRAM)]}
    for program in ("lockstep", "lockstep-agent", "lockstep-server"):
        commands[f"{program} --version"] = [str(environment / "bin" / program), "--version"]
    if demo:
        commands["the demo"] = [python, str(ROOT / "scripts" / "demo.py"), "--lockstep",
                                str(environment / "bin" / "lockstep"), "--logs",
                                str(ROOT / "build" / "demo-wheel")]
    for name, command in commands.items():
        with timed(name):
            done = subprocess.run(command, env=record.environment, cwd=folder,
                                  timeout=DEMO_LIMIT_S, check=False)
        if done.returncode != 0:
            yield f"{name} ended with exit code {done.returncode}"
    loaded = record.programs()
    print(f"{len({library for _, library in loaded})} libraries were loaded by "
          f"{len({program for program, _ in loaded})} programs together")
    if not any(os.path.basename(program) == "lockstep-server" for program, _ in loaded):
        yield "the dynamic linker's record does not show the server"
    yield from breaches(loaded, str(environment))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("--demo", action="store_true", help="run scripts/demo.py from the wheel")
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--hide", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    wheel = options.wheel.resolve()
    if not options.folder:
        with zipfile.ZipFile(wheel) as files:
            print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {len(files.namelist())} files",
                  flush=True)
        return run_in_namespace()
    if options.hide:
        hide(hidden_files(), options.folder / "hidden")
    problems = list(check(wheel, options.folder, options.demo))
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
