#!/usr/bin/python3
"""Checks that each folder includes only what it may, and that pure folders stay pure.

With one include root the compiler cannot check it: every header can be found from everywhere. Prints
`file:line: ...` for each breach.

The table of folders in ARCHITECTURE.md is generated from the ones below: `check_layers.py --write`
rewrites it.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Short names for folders that many others include.
NATIVE, STORE = "lockstep/wire/native", "lockstep/wire/store"
STOCK, TORCH = "lockstep/stock/wire", "lockstep/stock/tcpstore"
XLA, TENSORFLOW = "lockstep/stock/xla", "lockstep/stock/tensorflow"
CONFIG, JOURNAL = "lockstep/platform/config", "lockstep/platform/journal"
LINK, RUNTIME = "lockstep/platform/link", "lockstep/platform/runtime"
TLS, AUTH = "lockstep/platform/tls", "lockstep/platform/auth"
ETCD = "lockstep/platform/etcd"
PLAN, DISPATCH, CONSUMER = "lockstep/data/plan", "lockstep/data/dispatch", "lockstep/data/consumer"
ENGINE, WORKER = "lockstep/data/engine", "lockstep/data/worker"
TRANSPORT = "lockstep/rendezvous/transport"
NODE_GROUP = "lockstep/launch/node_group"
HOSTS, HOSTS_NET = "lockstep/hosts", "lockstep/hosts/net"

ARCHITECTURE = ROOT / "ARCHITECTURE.md"
TABLE_BEGINS = "<!-- Made by scripts/check_layers.py --write. -->"
TABLE_ENDS = "<!-- End of the table. -->"

# What each folder is, in the order of the table in ARCHITECTURE.md: what all parts stand on, the five
# parts, the programs, the tests.
WHAT_IT_IS = {
    "lockstep/base": "ids, time, checks, mutexes, limits, names of types",
    RUNTIME: "loop, timers, sockets (standalone Asio)",
    LINK: "one framed connection between two programs of ours",
    TLS: "TLS for those connections (OpenSSL: linked, or what the process has loaded); certificates",
    AUTH: "tokens: what they say, and the keys that sign them (OpenSSL)",
    JOURNAL: "entries on disk (SQLite) or in memory; one owner, checks",
    ETCD: "the same entries in etcd, written by the server that leads; which server that is",
    CONFIG: "options, each declared once: flag, variable, file",
    NATIVE: "our own messages, made from `proto/lockstep`: codec (protozero), what they mean to the "
            "machines",
    STORE: "records of coordinators, of the dispatcher and of torch's stores ↔ entries of the journal",
    "lockstep/coord": "**coordination**: the machines that coordinate a job",
    STOCK: "what both families of stock gRPC clients share: errors, most answers, what a family is",
    XLA: "bytes of jaxlib 0.10 and later ↔ events and replies; with the next, the only libprotobuf "
         "beside domain types",
    TENSORFLOW: "the same for TensorFlow and jaxlib up to 0.9.2",
    "lockstep/stock/grpc": "listeners for those clients; the only gRPC",
    TORCH: "the store of torch's clients: keys, queues, waits",
    TORCH + "/wire": "bytes of torch's TCPStore clients ↔ commands and answers",
    TORCH + "/listener": "the listener for those clients",
    "lockstep/preempt": "**preemption**: what announces the death of this host: signals, files, clouds, "
                        "schedulers; HTTP (Beast); TLS only in a separate library",
    PLAN: "**data service**: what a dataset is, and which record stands at which position",
    DISPATCH: "in the server: who reads what from whom",
    CONSUMER: "in a consumer: whom it asks, what it hands out, when it acknowledges",
    ENGINE: "in a worker: runs a segment of a dataset: sources, operators, Python functions in "
            "separate processes; frames",
    WORKER: "in a worker: its segments, what it shares with consumers on its host",
    "lockstep/rendezvous": "**rendezvous**: keys, values and steps between members, and their waits",
    TRANSPORT: "moves values between processes: shared memory, sockets",
    HOSTS: "**hosts**: which hosts of a job live, and when one that is cut off has stopped",
    HOSTS_NET: "how agents and the server tell each other: datagrams, proven by a secret (OpenSSL); a "
               "thread that nothing delays",
    NODE_GROUP: "**launch and look**: which launchers begin an attempt together",
    "lockstep/launch": "starts processes and supervises them to their end",
    "lockstep/observe": "status → table, JSON, sentences (`why`); the log of events",
    "lockstep/client": "behind the public C++ API of `include/lockstep`: members, keys, sessions that "
                       "outlive links, data readers; what sources of notices report",
    "lockstep/server": "puts everything together; decides nothing about a protocol",
    "lockstep/agent": "the agent of a host, `lockstep-agent`: passes calls of stock clients on to the "
                      "server, and long answers on to other agents (OpenSSL)",
    "lockstep/cli": "the program `lockstep`, one file a subcommand; no gRPC, no libprotobuf",
    "lockstep/sim": "tests only: simulations of the machines",
    "lockstep/testing": "tests only: what tests of several folders share",
}

# What a folder may include, besides itself. Everything may include lockstep/base.
MAY_INCLUDE = {
    "lockstep/base": set(),
    RUNTIME: set(),
    LINK: {NATIVE, RUNTIME},
    TLS: {RUNTIME},
    AUTH: {NATIVE},
    JOURNAL: set(),
    ETCD: {JOURNAL, RUNTIME},
    CONFIG: set(),
    NATIVE: {"lockstep/coord", TORCH, DISPATCH, PLAN, "lockstep/rendezvous"},
    STORE: {"lockstep/coord", DISPATCH, TORCH, NATIVE},
    "lockstep/coord": set(),
    STOCK: {"lockstep/coord"},
    XLA: {"lockstep/coord", STOCK},
    TENSORFLOW: {"lockstep/coord", STOCK},
    "lockstep/stock/grpc": {"lockstep/coord", STOCK, XLA, TENSORFLOW, RUNTIME},
    TORCH: set(),
    TORCH + "/wire": {TORCH},
    TORCH + "/listener": {TORCH, TORCH + "/wire", RUNTIME},
    "lockstep/preempt": {RUNTIME},
    PLAN: set(),
    DISPATCH: set(),
    CONSUMER: {DISPATCH},
    ENGINE: {PLAN, RUNTIME},
    WORKER: {NATIVE, PLAN, ENGINE, RUNTIME, LINK, TLS, TRANSPORT},
    "lockstep/rendezvous": set(),
    TRANSPORT: {"lockstep/rendezvous", NATIVE, RUNTIME, LINK},
    HOSTS: set(),
    HOSTS_NET: {HOSTS, RUNTIME},
    NODE_GROUP: set(),
    "lockstep/launch": {NATIVE, RUNTIME, LINK},
    "lockstep/observe": {"lockstep/coord", NATIVE},
    "lockstep/client": {NATIVE, DISPATCH, CONSUMER, PLAN, "lockstep/rendezvous", RUNTIME, LINK,
                        "lockstep/preempt", TRANSPORT},
    "lockstep/server": {"lockstep/coord", TORCH, TORCH + "/wire", TORCH + "/listener", DISPATCH, PLAN,
                        NATIVE, STORE, JOURNAL, ETCD, RUNTIME, LINK, TLS, AUTH, "lockstep/observe",
                        "lockstep/stock/grpc", CONFIG, "lockstep/preempt", NODE_GROUP, HOSTS, HOSTS_NET},
    "lockstep/agent": {NATIVE, CONFIG, RUNTIME, LINK, TLS, "lockstep/client", "lockstep/stock/grpc",
                       TORCH, TORCH + "/listener", "lockstep/server", HOSTS, HOSTS_NET},
    "lockstep/cli": {NATIVE, CONFIG, WORKER, ENGINE, RUNTIME, LINK, TLS, AUTH, "lockstep/client",
                     "lockstep/observe", "lockstep/preempt", "lockstep/launch", "lockstep/agent"},
    "lockstep/sim": {"lockstep/coord", DISPATCH, CONSUMER, "lockstep/rendezvous", "lockstep/client",
                     NATIVE, LINK, "lockstep/stock/grpc", "lockstep/agent", "lockstep/server"},
    "lockstep/testing": {"lockstep/coord", "lockstep/rendezvous", NATIVE, RUNTIME, LINK,
                         "lockstep/preempt"},
}
# What only its tests may include, too: the dispatcher's are told through a consumer's machine, and TLS
# is tried where it is used.
TESTS_MAY_INCLUDE = {DISPATCH: {CONSUMER}, TLS: {LINK, NATIVE}, TRANSPORT: {TLS},
                     "lockstep/agent": {"lockstep/coord", STOCK}}

# Decide only: no thread, clock, file, randomness, environment, wire format or socket.
PURE = {"lockstep/base", "lockstep/coord", TORCH, PLAN, DISPATCH, CONSUMER, "lockstep/rendezvous",
        NODE_GROUP, HOSTS}
# Says why before it ends the process; is for shells, who have nothing below them but base.
PURE_EXEMPT = {"lockstep/base/check.h", "lockstep/base/mutex.h"}
# Elsewhere a header may say of itself that it is pure by the word `Pure.` in its head comment; then
# these hold for it and for the source file of the same name.
DECIDES_ONLY_BANS = [
    (r'#include\s*<(thread|mutex|shared_mutex|atomic|condition_variable|future|stop_token)>',
     "threads belong to the shell"),
    (r'#include\s*"lockstep/base/mutex\.h"', "threads belong to the shell"),
    (r'#include\s*<(fstream|filesystem|iostream|unistd\.h|sys/[^>]*|netinet/[^>]*)>',
     "files and system calls belong to the shell"),
    (r'#include\s*<random>', "ids come from counters in the state or from events"),
    (r'#include\s*"absl/(synchronization|flags|random)/', "threads, flags, randomness: the shell's"),
    (r'\babsl::Now\b|\bGetCurrentTimeNanos\b|_clock::now\b|\bstd::time\(|\bclock_gettime\b',
     "time is the `now` argument"),
    (r'\b(std::)?(secure_)?getenv\s*\(', "settings come in Options"),
    (r'\b(std::)?s?rand\s*\(|\brandom_device\b|\bmt19937', "ids come from counters or events"),
]
PURE_BANS = DECIDES_ONLY_BANS + [
    (r'\bstd::(cout|cerr|clog)\b|\b(std::)?(v?f?printf|fopen|fputs|fwrite|puts)\s*\(',
     "what people should read is a notice"),
    (r'#include\s*["<](google/protobuf|grpc|grpcpp|asio|protozero|spdlog|nlohmann)\b',
     "a pure folder knows no wire format, socket or log"),
    (r'#include\s*"[^"]*\.pb\.h"', "a pure folder knows no wire format"),
]

# Who may read the wall clock, which jumps: only to note it beside what is kept or shown, and where
# gRPC takes and gives deadlines by it. Whoever waits goes by the steady clock.
WALL_CLOCK = (r'\babsl::Now\s*\(|\bsystem_clock\b|\bgettimeofday\b|\bCLOCK_REALTIME\b'
              r'|\btime\s*\(\s*(nullptr|NULL|0)\s*\)')
MAY_WALL_CLOCK = {"lockstep/cli/bundle.cc", "lockstep/cli/events.cc",
                  "lockstep/stock/grpc/agent_listener.cc", "lockstep/stock/grpc/stock_calls.cc",
                  "lockstep/stock/grpc/grpc_server.cc",
                  "lockstep/platform/etcd/client.cc", "lockstep/preempt/watched_source.cc",
                  "lockstep/server/data_effect_gate.cc",
                  "lockstep/server/event_feed.cc", "lockstep/server/job_host.cc",
                  "lockstep/agent/pulse.cc", "lockstep/server/host_pulse.cc",
                  "lockstep/server/job_outlet.cc",
                  "lockstep/server/job_table.cc", "lockstep/server/saved_state.cc",
                  "lockstep/server/set_aside_jobs.cc",
                  "lockstep/server/store_journal.cc", "lockstep/server/server_certificate.cc",
                  "lockstep/server/admission.cc", "lockstep/server/token_reviewer.cc",
                  "lockstep/cli/auth.cc", "lockstep/cli/token.cc",
                  "lockstep/data/worker/worker_identity.cc",
                  "lockstep/server/secure_server_testing.h"}

# Where gRPC and libprotobuf may appear. Programs of users carry neither, so the client side does not.
GRPC = r'#include\s*["<]grpc(pp)?/'
PROTOBUF = r'#include\s*(["<]google/protobuf/|"[^"]*\.pb\.h")'
MAY_GRPC = {"lockstep/stock/grpc", "lockstep/server", "lockstep/agent", ETCD}
MAY_PROTOBUF = MAY_GRPC | {STOCK, XLA, TENSORFLOW, "lockstep/sim"}
PROTOZERO = r'#include\s*["<]protozero/'
MAY_PROTOZERO = {NATIVE}
# TLS: in a library of its own, so that programs of users do without.
OPENSSL = r'#include\s*["<](openssl/|asio/ssl)'
MAY_OPENSSL = {"lockstep/preempt/tls_exchange.cc", "lockstep/platform/tls/openssl.h",
               "lockstep/platform/tls/certificates.cc", "lockstep/platform/auth/token_keys.cc",
               "lockstep/hosts/net/seal.cc", "lockstep/agent/value_cipher.cc"}
# Of all Boost only what reads HTTP, with settings of its own that two files must not disagree about.
BOOST = r'#include\s*["<]boost/'
MAY_BOOST = {"lockstep/preempt/http_wire.cc"}

# Of ours; not what protoc makes of proto/lockstep.
INCLUDE = re.compile(r'#include\s*"(lockstep/[^"]+(?<!\.pb\.h))"')


def folder_of(path):
    """The folder of the tables that a file is in, the longest name first: a public header counts to the
    folder that implements it. include/lockstep/client/x.h -> lockstep/client,
    lockstep/rendezvous/transport/x.h -> lockstep/rendezvous/transport"""
    folder = path.removeprefix("include/").rpartition("/")[0]
    known = folder
    while known and known not in MAY_INCLUDE:
        known = known.rpartition("/")[0]
    return known or folder


def strip_comment(line):
    return line if "#include" in line else re.sub(r"//.*", "", line)


def without_block_comments(text):
    """The same lines, with what stands between /* and */ blanked."""
    return re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.DOTALL)


def says_pure(path):
    """Whether the file, or the header beside it, opens with a comment that ends in `Pure.`"""
    header = path.with_suffix(".h")
    text = (header if header.exists() else path).read_text()
    head = re.match(r"(?://[^\n]*\n)+", text)
    return bool(head and re.search(r"\bPure\.", head.group()))


def bans_for(name, says_it_is_pure):
    if pathlib.PurePath(name).stem.endswith("_test") or name in PURE_EXEMPT:
        return []
    if folder_of(name) in PURE:
        return PURE_BANS
    return DECIDES_ONLY_BANS if says_it_is_pure else []


def check_line(name, line, says_it_is_pure=False):
    """Yields what is wrong with a line of the named file."""
    folder = folder_of(name)
    is_test = pathlib.PurePath(name).stem.endswith("_test")
    match = INCLUDE.search(line)
    if match:
        target = folder_of(match.group(1))
        allowed = {folder, "lockstep/base"} | MAY_INCLUDE[folder]
        if is_test:
            allowed |= {"lockstep/testing"} | TESTS_MAY_INCLUDE.get(folder, set())
        if target not in allowed:
            yield f"{folder} may not include {target}"
        if target in ("lockstep/testing", "lockstep/sim") and folder != target and not is_test:
            yield f"{target} is for tests only"
    for pattern, why in bans_for(name, says_it_is_pure):
        if re.search(pattern, line):
            yield f"not in pure code: {why}"
    if (re.search(WALL_CLOCK, line) and name not in MAY_WALL_CLOCK and not is_test
            and folder != "lockstep/testing"):
        yield "the wall clock jumps; go by the steady one (runtime::MonotonicNow)"
    # Tests hold our own encoding against the real library.
    for pattern, where, what in ((GRPC, MAY_GRPC, "gRPC"), (PROTOBUF, MAY_PROTOBUF, "libprotobuf"),
                                 (PROTOZERO, MAY_PROTOZERO, "protozero")):
        if re.search(pattern, line) and folder not in where and not is_test:
            yield f"{what} is only for {', '.join(sorted(where))}"
    if re.search(OPENSSL, line) and name not in MAY_OPENSSL and not is_test:
        yield f"OpenSSL is only for {', '.join(sorted(MAY_OPENSSL))}"
    if re.search(BOOST, line) and name not in MAY_BOOST:
        yield f"Boost is only for {', '.join(sorted(MAY_BOOST))}"


def check_file(path):
    name = path.relative_to(ROOT).as_posix()
    folder = folder_of(name)
    if folder not in MAY_INCLUDE:
        yield f"{name}:1: folder {folder} is not in the table of scripts/check_layers.py"
        return
    text = without_block_comments(path.read_text())
    pure = says_pure(path)
    for number, line in enumerate(text.splitlines(), 1):
        for problem in check_line(name, strip_comment(line), pure):
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


def layers_table():
    """The lines of the table in ARCHITECTURE.md."""
    yield "| folder | is | may include |"
    yield "|---|---|---|"
    for folder, what in WHAT_IT_IS.items():
        targets = [name.removeprefix("lockstep/") for name in WHAT_IT_IS
                   if name in MAY_INCLUDE[folder]]
        targets = targets or ["base" if folder != "lockstep/base" else "nothing"]
        pure = "; pure" if folder in PURE else ""
        yield f"| `{folder}` | {what} | {', '.join(targets)}{pure} |"


def with_layers(text):
    """ARCHITECTURE.md with that table in the place of the one it has; None: there is no place."""
    begin, end = text.find(TABLE_BEGINS), text.find(TABLE_ENDS)
    if begin < 0 or end < begin:
        return None
    return text[:begin] + "\n".join([TABLE_BEGINS, "", *layers_table(), "", ""]) + text[end:]


def check_architecture():
    for folder in sorted(WHAT_IT_IS.keys() ^ MAY_INCLUDE.keys()):
        yield f"scripts/check_layers.py: {folder} is not in both tables"
        return
    text = ARCHITECTURE.read_text()
    if with_layers(text) != text:
        yield "ARCHITECTURE.md: its table of folders is out of date: run scripts/check_layers.py --write"


def main():
    if sys.argv[1:] == ["--write"]:
        ARCHITECTURE.write_text(with_layers(ARCHITECTURE.read_text()))
    problems = [*check_table(), *check_architecture()]
    files = sorted(p for top in ("include", "lockstep") for p in (ROOT / top).rglob("*")
                   if p.suffix in (".h", ".cc"))
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
