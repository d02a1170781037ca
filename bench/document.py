"""What the benchmarks that write into a document share: tables, the machine, the place in the document."""

import os
import platform


def machine():
    """In words, for the head of a table."""
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                  if line.startswith("model name")), platform.machine())
    return f"{os.cpu_count()} cores, {model}, {platform.system()} {platform.release()}"


def table(rows, numbers=False):
    """Rows of cells as Markdown, the first of them the head. `numbers`: the last column has such."""
    line = ["---"] * len(rows[0])
    if numbers:
        line[-1] = "---:"
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (rows[0], line, *rows[1:]))


def put_into(document, name, text):
    """Replaces what stands between the marks of that name in a Markdown file."""
    begin, end = (f"<!-- {name}: {what} -->\n" for what in ("begin", "end"))
    before, _, rest = document.read_text(encoding="utf-8").partition(begin)
    _, found, after = rest.partition(end)
    assert found, f"{document} has no {begin.strip()} and {end.strip()}"
    document.write_text(before + begin + text + end + after, encoding="utf-8")
