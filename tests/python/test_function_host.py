"""Which Python functions the process beside a data worker runs, of those that its operator named."""

import sys

import pytest

from lockstep.data import _function_host as host


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A package that an operator may have allowed, whose names are not all its own."""
    package = tmp_path / "allowed_package"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import functools\n"
        "from builtins import exec as run\n"
        "from os import system\n"
        "from allowed_package.inner import encode\n"
        "evaluate = functools.partial(eval)\n"
        "join = ' '.join\n"
        "def double(x):\n    return x * 2\n")
    (package / "inner.py").write_text("def encode(x):\n    return x + 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "allowed_package"
    for name in [name for name in sys.modules if name.partition(".")[0] == "allowed_package"]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["run", "system", "evaluate", "join"])
def test_finding_01_an_alias_is_no_function_of_the_module_by_whatever_grant(module, name):
    for grant in ("name", "module"):
        with pytest.raises(PermissionError, match="--allow-function"):
            host.find(f"{module}:{name}", grant)


def test_finding_01_what_the_package_defines_can_be_allowed_by_name(module):
    assert host.find(f"{module}:double", "name")(4) == 8
    assert host.find(f"{module}:encode", "name")(4) == 5
    assert host.find(f"{module}.inner:encode", "module")(4) == 5
    with pytest.raises(PermissionError, match="does not define encode itself"):
        host.find(f"{module}:encode", "module")


def test_in_the_users_own_program_a_function_is_what_it_is(module):
    assert host.find(f"{module}:join")(["a", "b"]) == "a b"
