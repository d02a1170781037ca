"""Every difference that the tests know stands in docs/compatibility.md, and the other way round."""

import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = HERE.parent.parent / "docs" / "compatibility.md"

MENDED = re.compile(r"^@pytest\.mark\.mended\(.*\)\n(?:@.*\n)*def (test_\w+)", re.MULTILINE)
LISTED = re.compile(r"`(test_\w+)`")


def test_mended_defects_are_listed():
    mended = {name for path in HERE.glob("test_*.py") for name in MENDED.findall(path.read_text())}
    assert mended
    assert mended == set(LISTED.findall(DOCUMENT.read_text()))
