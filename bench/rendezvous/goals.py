"""The goals of the transfers, as ratios of what was measured in the same run."""

KIB, MIB = 1 << 10, 1 << 20

ARENA, PRIVATE, PRIVATE_HUGE = ("lockstep, made in the arena", "lockstep, private",
                                "lockstep, private, huge pages")
INTO, TCP, TCP_INTO = ("lockstep, arena, into place", "lockstep, TCP", "lockstep, TCP, into place")
UCX_SHARED = ("UCX tag, posix+cma", "UCX AM, posix+cma")
UCX_TCP = ("UCX tag, TCP", "UCX AM, TCP")
SIZES = (8, 4 * KIB, 8 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB)
# From here on UCX is a goal: below, its messages are a few stores into a ring.
UCX_SIZES = tuple(size for size in SIZES if size >= 8 * KIB)


def short(size):
    return f"{size // MIB}M" if size >= MIB else f"{size // KIB}K" if size >= KIB else f"{size}B"


class Goals:
    def __init__(self, results):
        self.results = results
        self.lines = []

    def add(self, goal, parts, met):
        """`parts`: (what, value) with None where nothing was measured; all must be met."""
        known = [(what, value) for what, value in parts if value is not None]
        text = ", ".join(f"{what} {value:.3g}" if what else f"{value:.3g}" for what, value in known)
        if len(known) < len(parts) or not known:
            verdict = "not measured" if not known else "in part measured"
            if known and not all(met(value) for _, value in known):
                verdict = "no"
        else:
            missed = [what for what, value in known if not met(value)]
            verdict = ("yes" if not missed else "no" if len(missed) == len(known) else
                       "no: " + ", ".join(missed))
        self.lines.append([goal, text, verdict])

    def most(self, goal, limit, parts):
        self.add(goal, parts, lambda value: value <= limit)

    def least(self, goal, limit, parts):
        self.add(goal, parts, lambda value: value >= limit)

    def us(self, name, size, shape="ask"):
        return self.results.median(name, shape, size)

    def slower(self, ours, theirs, size, shape="ask"):
        return over(self.us(ours, size, shape), self.us(theirs, size, shape))

    def quicker(self, ours, theirs, size, shape="ask"):
        """By rate, against the best of theirs."""
        rates = [self.results.rate(name, shape, size) for name in theirs]
        rates = [rate for rate in rates if rate is not None]
        return over(self.results.rate(ours, shape, size), max(rates, default=None))

    def by_size(self, sizes, ours, theirs, shape="ask"):
        return [(short(size), self.quicker(ours, theirs, size, shape)) for size in sizes]


def over(a, b):
    return None if a is None or b is None else a / b


def one_host(goals):
    goals.most("in one process, sent and received: at most 1 us", 1,
               [("", goals.us("lockstep, one process", 8))])
    goals.most("made in the arena, any size, spinning: at most 2 us", 2,
               [(short(size), goals.us(ARENA, size)) for size in SIZES])
    goals.most("made in the arena, asleep: at most 1.3 times a unix socket's ping-pong", 1.3,
               [(short(size), goals.slower(ARENA, "unix socket", size, "pause"))
                for size in (8, 4 * KIB)])
    goals.least("private, from 1 MiB: at least 0.9 of one memcpy, 4 KiB pages", 0.9,
                goals.by_size((MIB, 16 * MIB, 256 * MIB), PRIVATE, ["memcpy, 4 KiB pages"]))
    goals.least("private, from 16 MiB: at least 0.9 of a copy past the caches, huge pages", 0.9,
                goals.by_size((16 * MIB, 256 * MIB), PRIVATE_HUGE, ["past the caches, huge pages"]))
    goals.most("4 KiB, spinning: at most 3 us", 3,
               [("arena", goals.us(ARENA, 4 * KIB)), ("private", goals.us(PRIVATE, 4 * KIB)),
                ("into place", goals.us(INTO, 4 * KIB))])


def network_and_peers(goals):
    large = (16 * MIB, 256 * MIB)
    for name in (TCP, TCP_INTO):
        goals.least(f"{name}, from 16 MiB: at least 0.9 of a bare polled socket", 0.9,
                    goals.by_size(large, name, ["TCP, polled"]))
    slices = "gRPC, slices"
    goals.least("TCP, 16 MiB: at least 1.7 times gRPC's slices", 1.7,
                goals.by_size((16 * MIB,), TCP, [slices]))
    goals.least("TCP, 4 KiB, spinning: at least 5 times as quick as gRPC's slices", 5,
                [("4K", goals.slower(slices, TCP, 4 * KIB))])
    goals.least("private (one copy), 16 MiB: at least 5 times gRPC's slices", 5,
                goals.by_size((16 * MIB,), PRIVATE, [slices]))
    goals.least("made in the arena (no copy), 16 MiB: at least 100 times gRPC's slices", 100,
                goals.by_size((16 * MIB,), ARENA, [slices]))
    streams = UCX_SIZES[1:]
    for name in (ARENA, PRIVATE, INTO):
        goals.least(f"{name}, from 8 KiB, asked: not slower than UCX posix+cma", 1,
                    goals.by_size(UCX_SIZES, name, UCX_SHARED))
        goals.least(f"{name}, streamed: not slower than UCX posix+cma", 1,
                    goals.by_size(streams, name, UCX_SHARED, "stream"))
    for shape, sizes in (("ask", UCX_SIZES), ("stream", streams)):
        said = "asked" if shape == "ask" else "streamed"
        goals.least(f"TCP, from 8 KiB, {said}: at least 0.9 of UCX's TCP", 0.9,
                    goals.by_size(sizes, TCP, UCX_TCP, shape))


def all_goals(results):
    """(goal, result, met?) line by line; a ratio above 1 is where ours is better."""
    goals = Goals(results)
    one_host(goals)
    network_and_peers(goals)
    return goals.lines
