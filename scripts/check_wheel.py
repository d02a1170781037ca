#!/usr/bin/python3
"""Checks a repaired wheel as its users will meet it.

Installs it into a fresh environment, starts its server, joins, runs its programs, all with the
dynamic linker's record of what was loaded: nothing may come from Debian's packages but the C and
C++ runtime, and the extension may load nothing of ours at all. Prints what it saw; exit code 1 with
the breaches.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import zipfile

# Of the system, by the manylinux policy: libc and its parts, libstdc++, libgcc.
SYSTEM = ("linux-vdso.so", "ld-linux-x86-64.so", "libc.so", "libm.so", "libstdc++.so", "libgcc_s.so",
          "libpthread.so", "libdl.so", "librt.so", "libutil.so", "libnss_", "libresolv.so",
          # Loaded by Debian's python3 itself, or by modules of its own.
          "libz.so", "libexpat.so", "libcrypto.so", "libssl.so", "libffi.so", "libbz2.so",
          "liblzma.so", "libuuid.so", "libsqlite3.so", "libmpdec.so", "libreadline.so", "libtinfo.so")
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


def loaded(log_prefix):
    """Every library that a process of the run loaded, from the logs of LD_DEBUG=libs."""
    names = set()
    for log in log_prefix.parent.glob(log_prefix.name + ".*"):
        for line in log.read_text(errors="replace").splitlines():
            if "calling init:" in line:
                names.add(line.split("calling init:")[1].strip())
    return names


def breaches(libraries, environment):
    for library in sorted(libraries):
        name = os.path.basename(library)
        inside = os.path.realpath(library).startswith(os.path.realpath(environment) + "/")
        if not inside and not name.startswith(SYSTEM) and "/python3" not in library:
            yield f"{library} is neither in the wheel nor of the system"


def check(wheel, folder):
    environment = folder / "venv"
    subprocess.run(["/usr/bin/python3", "-m", "venv", str(environment)], check=True)
    subprocess.run([str(environment / "bin" / "pip"), "install", "--quiet", "--no-index",
                    "--disable-pip-version-check", str(wheel)], check=True)
    record = folder / "loaded"
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LD_DEBUG": "libs",
             "LD_DEBUG_OUTPUT": str(record)}
    done = subprocess.run([str(environment / "bin" / "python"), "-c", textwrap.dedent(PROGRAM)],
                          env=clean, cwd=folder, timeout=300, check=False)
    if done.returncode != 0:
        yield f"the program ended with exit code {done.returncode}"
    libraries = loaded(record)
    print(f"{len(libraries)} libraries were loaded by all processes together")
    yield from breaches(libraries, str(environment))
    for program in ("lockstep", "lockstep-server"):
        subprocess.run([str(environment / "bin" / program), "--version"],
                       env={"PATH": "/usr/bin:/bin"}, check=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    wheel = pathlib.Path(sys.argv[1]).resolve()
    with zipfile.ZipFile(wheel) as files:
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {len(files.namelist())} files")
    with tempfile.TemporaryDirectory(prefix="lockstep-wheel-") as folder:
        problems = list(check(wheel, pathlib.Path(folder)))
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
