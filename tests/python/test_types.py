"""The types that the package promises: mypy, as strictly as there is, from where users install it."""

import ast
import inspect
import os
import pathlib
import subprocess
import sys

import pytest

import lockstep
from conftest import LIMIT_S

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = pathlib.Path(lockstep.__file__).parent
PROGRAM = pathlib.Path(__file__).with_name("typed_program.py")


def mypy(folder, *arguments):
    # Not in the checkout, whose pyproject.toml has settings of its own.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), *arguments],
        cwd=folder, capture_output=True, text=True, timeout=5 * LIMIT_S, check=False,
        env={**os.environ, "MYPYPATH": str(PACKAGE.parent)})
    return done.stdout + done.stderr


def test_programs_of_users_have_types(tmp_path):
    assert "Success" in mypy(tmp_path, str(PROGRAM), str(ROOT / "examples" / "hello_member.py"))


def test_the_package_itself_has_types(tmp_path):
    assert (PACKAGE / "py.typed").exists()
    assert "Success" in mypy(tmp_path, "-p", "lockstep")


def test_a_mistake_is_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import lockstep\n"
                     "lockstep.join(size='four')\n"
                     "lockstep.join().kv.get('a').encode()\n")
    text = mypy(tmp_path, str(wrong))
    assert "Found 2 errors" in text and "[arg-type]" in text and "[attr-defined]" in text, text


def public_calls():
    classes = [lockstep.Member, lockstep.Keys, lockstep.KeyWatch, lockstep.JobWatch, lockstep.Server,
               lockstep.Session, lockstep.Preemption, lockstep.Rendezvous, lockstep.Step,
               lockstep.aio.Rendezvous,
               lockstep.aio.Step,
               lockstep.aio.Member, lockstep.aio.Keys, lockstep.aio.KeyWatch, lockstep.aio.JobWatch]
    classes += [lockstep.data.Dataset, lockstep.data.LocalIterator, lockstep.data.Reader]
    names = {name for one in classes for name in dir(one) if not name.startswith("_")}
    return names | {name for module in (lockstep, lockstep.data) for name in module.__all__
                    if inspect.isfunction(getattr(module, name))}


def test_the_program_makes_every_public_call():
    used = {node.attr for node in ast.walk(ast.parse(PROGRAM.read_text()))
            if isinstance(node, ast.Attribute)}
    assert public_calls() - used == set()


@pytest.mark.timeout(5 * LIMIT_S)
def test_the_program_runs():
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True,
                          timeout=4 * LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every call was made" in done.stdout


def test_the_stub_of_the_extension_has_what_the_extension_has():
    stub = ast.parse((PACKAGE / "_native.pyi").read_text())
    for node in stub.body:
        if isinstance(node, ast.FunctionDef):
            assert callable(getattr(lockstep._native, node.name))
        elif isinstance(node, ast.ClassDef):
            declared = {one.name for one in node.body if isinstance(one, ast.FunctionDef)
                        and not one.name.startswith("_")}
            there = {name for name in dir(getattr(lockstep._native, node.name))
                     if not name.startswith("_")}
            assert declared == there, node.name
