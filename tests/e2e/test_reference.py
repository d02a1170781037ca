"""docs/cli.md has of `lockstep worker` what the program says of itself, option by option, and of
`lockstep data` what it takes and prints."""

import json
import re

from commands import LOCKSTEP, ROOT, Command

DOCUMENT = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `--([a-z-]+)(?: [^`]*)?` \| `(\w+)` \| [^|]* \| (.*?) \| (.*) \|$", re.MULTILINE)
OPTION = re.compile(r"^  (?:-\w,)?--([a-z-]+)(?: (\S+))?(?: \.\.\.)? +(.*)$")
# What the document says in words, for each host has another.
IN_WORDS = {"threads": "as many as the host has cores"}


def said(*arguments):
    with Command(LOCKSTEP, *arguments) as command:
        assert command.end() == 0, command.text()
        return "\n".join(command.out)


def documented(section):
    """{option: (variable, default, meaning)} of a table."""
    begin = DOCUMENT.index(f"<!-- options: {section} -->")
    rows = ROW.findall(DOCUMENT[begin:DOCUMENT.index("<!-- end -->", begin)])
    return {name: (variable, default.strip("` "), meaning.removesuffix(" Repeatable."))
            for name, variable, default, meaning in rows}


def helped(text):
    """The same of what --help or --help-all prints, where an option may go over several lines."""
    joined, options = [], {}
    for line in text[text.index("Options:"):].splitlines():
        if line.startswith("  -"):
            joined.append(line)
        elif line.startswith("   "):
            joined[-1] += "  " + line.strip()
    for line in joined:
        name, value, meaning = OPTION.match(line).groups()
        if name in ("help", "help-all"):
            continue
        meaning, variable = re.fullmatch(r"(.*) \[(\w+)\]", meaning).groups()
        # Without a value it is a switch, and off.
        default = IN_WORDS.get(name) or (value.partition("=")[2] if value else "false")
        options[name] = (variable, default, " ".join(meaning.split()))
    return options


def test_every_option_of_a_worker_is_in_the_reference():
    program, document = helped(said("worker", "--help-all")), documented("worker")
    assert program == document and len(program) > 8


def test_what_the_reference_says_of_data_is_so():
    begin = DOCUMENT.index("## `lockstep data [ITERATION]`")
    section = DOCUMENT[begin:DOCUMENT.index("\n## ", begin + 1)]
    help_text = said("data", "--help")
    assert "lockstep data [OPTIONS] [iteration]" in help_text
    assert set(helped(help_text)) == {"config", "coordinator", "output", "timeout"}
    wanted = set(re.findall(r'"(\w+)"', section[section.index("`-o json`"):]))
    with Command(LOCKSTEP, "serve", "--ephemeral", "--listen", "127.0.0.1:0") as server:
        address = server.wait_for(r"answers at (\S+)")[0].group(1)
        assert set(json.loads(said("data", "--coordinator", address, "-o", "json"))) == wanted
        with Command(LOCKSTEP, "data", "none-of-that-name", "--coordinator", address) as missing:
            assert missing.end() == 3 and "Exit code" in section, missing.text()
