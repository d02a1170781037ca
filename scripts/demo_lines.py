"""What the demo reads in the lines that `lockstep run` and the examples print."""

import re

OF_PROCESS = re.compile(r"^\[(?:\w+/)?(\d+)(?:#\d+)?\]\+?\s?(.*)")
PROGRESS = re.compile(r"\bstep\s+(\d+)(?:/(\d+))?.*?\bloss[ =:]+([\d.e+-]+)")
FINAL = re.compile(r"\bfinal\b.*?\bloss[ =:]+([\d.e+-]+).*?\baccuracy[ =:]+([\d.]+)")


def of_process(line):
    """(process, text) of a line that `lockstep run` passed on, (None, line) of its own."""
    match = OF_PROCESS.match(line)
    return (int(match.group(1)), match.group(2)) if match else (None, line)


def progress(lines):
    """The newest (step, of, loss) that any process printed."""
    for _, line in reversed(lines):
        match = PROGRESS.search(line)
        if match:
            return int(match.group(1)), int(match.group(2) or 0), match.group(3)
    return None


def finals(lines):
    found = {}
    for _, line in lines:
        process, text = of_process(line)
        match = FINAL.search(text)
        if match and process is not None:
            found[process] = (match.group(1), float(match.group(2)))
    return found
