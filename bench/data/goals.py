"""The goals of the data service, as ratios of what was measured in the same run."""

import programs

THEIRS, OURS = programs.TWO_OF_THEIRS.name, programs.TWO_OF_OURS.name
ONE_OF_OURS = "lockstep, 1 worker"
TORCH_W2 = ("torch DataLoader, 2 workers", "torch DataLoader, 2 workers, gathered")


def over(a, b):
    return None if a is None or b is None else a / b


class Goals:
    def __init__(self, results):
        self.results = results
        self.lines = []

    def add(self, goal, value, met):
        said = "" if value is None else f"{value:.3g}"
        self.lines.append([goal, said, "not measured" if value is None else
                           "yes" if met(value) else "no"])

    def least(self, goal, limit, value):
        self.add(goal, value, lambda known: known >= limit)

    def most(self, goal, limit, value):
        self.add(goal, value, lambda known: known <= limit)

    def best(self, row, names, key, choose):
        """Of those that were measured."""
        figures = [self.results.median(name, row, key) for name in names]
        return choose((figure for figure in figures if figure is not None), default=None)

    def of_ours(self, row, key, name=OURS):
        return self.results.median(name, row, key)


def against_the_service(goals, row, title):
    """Above 1 where ours is better."""
    def theirs(key):
        return goals.results.median(THEIRS, row, key)
    goals.least(f"{title}: elements a second, against tf.data service", 1,
                over(goals.of_ours(row, "per_s"), theirs("per_s")))
    for key, what in (("cpu_us", "CPU time an element"),
                      ("cold_s", "from the start of the service to the first element"),
                      ("warm_s" if row == "range" else "first_s",
                       "a service that runs, to the first element")):
        goals.least(f"{title}: {what}, tf.data service's by ours", 1,
                    over(theirs(key), goals.of_ours(row, key)))
    goals.least(f"{title}: longest without an element after a worker is killed, tf.data service's "
                "by ours", 1, over(goals.results.longest(THEIRS, row, "outage_s"),
                                   goals.results.longest(OURS, row, "outage_s")))


def all_goals(results):
    """(goal, result, met?) line by line."""
    goals = Goals(results)
    against_the_service(goals, "range", "first come")
    against_the_service(goals, "rounds", "rounds")
    goals.most("first come, a worker killed: elements lost or doubled", 0,
               goals.of_ours("range", "wrong"))
    goals.least("windows, through the service: 10 times torch with 2 workers", 10,
                over(goals.of_ours("windows", "per_s"),
                     goals.best("windows", TORCH_W2, "per_s", max)))
    goals.least("windows, the same by CPU time an element", 10,
                over(goals.best("windows", TORCH_W2, "cpu_us", min),
                     goals.of_ours("windows", "cpu_us")))
    goals.least("8 MiB arrays: 0.8 of one memcpy", 0.8,
                over(goals.of_ours("arrays", "per_s", ONE_OF_OURS),
                     results.median(programs.LIMIT.name, "arrays", "per_s")))
    goals.most("8 MiB arrays: 0.01 CPU seconds a GB in the consumer", 0.01,
               results.median(ONE_OF_OURS, "arrays", "consumer_cpu_s_per_gb"))
    peers = [program.name for program in programs.SMALL if program.group not in ("ours", "limit")]
    goals.least("records, through the service: 3 times the best form of any peer", 3,
                over(goals.of_ours("records", "per_s"), goals.best("records", peers, "per_s", max)))
    goals.least("records, the same by CPU time an element", 3,
                over(goals.best("records", peers, "cpu_us", min),
                     goals.of_ours("records", "cpu_us")))
    return goals.lines
