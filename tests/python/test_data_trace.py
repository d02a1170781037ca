"""Lambdas as expressions of the engine: what is traced, and what is refused with a way out."""

import inspect
import math
import pathlib
import random
import time

import pytest

import lockstep
from lockstep import data
from lockstep.data import _functions, _trace

HERE = pathlib.Path(__file__).name


def traced(function):
    return _trace.trace(function, lambda: ["image", "label"])


@pytest.mark.parametrize(("function", "text"), [
    (lambda x: x, "_"),
    (lambda x: x + 1, "(add _ 1)"),
    (lambda x: 1 - x, "(sub 1 _)"),
    (lambda x: x * 2 / 3, "(div (mul _ 2) 3)"),
    (lambda x: x // 2 % 7, "(mod (floordiv _ 2) 7)"),
    (lambda x: -abs(+x), "(neg (abs _))"),
    (lambda x: (x > 1) & ~(x >= 5) | (x == 9), "(or (and (gt _ 1) (not (ge _ 5))) (eq _ 9))"),
    (lambda x: 3 < x, "(gt _ 3)"),
    (lambda x: x != True, "(ne _ true)"),  # noqa: E712
    (lambda x: x * 0.5 + 1e-7, "(add (mul _ 0.5) 1e-07)"),
    (lambda x: x * math.inf, "(mul _ inf)"),
    (lambda x: x.cast("float32").astype(int), '(cast (cast _ "float32") "int")'),
    (lambda x: x[3], "(index _ 3)"),
    (lambda x: x[-1], "(index _ -1)"),
    (lambda x: x[2:10], "(slice _ 2 10)"),
    (lambda x: x[1:], f"(slice _ 1 {2**63 - 1})"),
    (lambda x: x.sum() / x.length() - x.mean(), "(sub (div (sum _) (length _)) (mean _))"),
    (lambda x: data.where(x > 0, x, data.minimum(0, data.maximum(x, -5))),
     "(where (gt _ 0) _ (min 0 (max _ -5)))"),
    (lambda row: row["image"] * 2, '(mul (get "image") 2)'),
    (lambda row: {"x": row["image"] / 255.0, "y": row["label"]},
     '(record "x" (div (get "image") 255.0) "y" (get "label"))'),
    (lambda row: {**row, "double": row["label"] * 2},
     '(record "image" (get "image") "label" (get "label") "double" (mul (get "label") 2))'),
    (lambda row: row['a"b\\c'], r'(get "a\"b\\c")'),
], ids=str)
def test_a_lambda_is_an_expression(function, text):
    assert traced(function) == text


def test_a_closure_over_numbers_is_an_expression():
    scale = 1 / 255
    assert traced(lambda x: x * scale) == f"(mul _ {scale!r})"


def test_a_function_in_a_function_is_traced_as_a_lambda_is():
    def double(x):
        return x * 2

    assert traced(double) == "(mul _ 2)"


def test_numpy_functions_that_the_engine_has_are_traced():
    numpy = pytest.importorskip("numpy")
    assert traced(lambda x: numpy.maximum(x, 0)) == "(max _ 0)"
    assert traced(lambda x: numpy.where(x > 0, x, 1)) == "(where (gt _ 0) _ 1)"
    assert traced(lambda x: numpy.abs(x) + numpy.float32(0.5)) == \
        '(add (abs _) (cast 0.5 "float32"))'
    with pytest.raises(_trace.NotTraceable, match=r"numpy\.sqrt"):
        traced(numpy.sqrt)
    with pytest.raises(_trace.NotTraceable, match=r"numpy\.concatenate"):
        traced(lambda x: numpy.concatenate([x, x]))
    with pytest.raises(_trace.NotTraceable, match="ndarray"):
        traced(lambda x: x + numpy.zeros(3))


@pytest.mark.parametrize(("function", "why"), [
    (lambda x: x if x > 0 else 0, "whether a column is true"),
    (lambda x: x > 0 and x < 5, "write & for and"),
    (lambda x: 0 < x < 5, "chained"),
    (lambda x: not x, "whether a column is true"),
    (lambda x: [one + 1 for one in x], "goes through"),
    (lambda x: len(x), "how long"),
    (lambda x: int(x), "cast"),
    (lambda x: math.sqrt(x), "cast"),
    (lambda x: x.upper(), r"\.upper"),
    (lambda x: x + "a", "computes with str"),
    (lambda x: x + 2**64, "64 bits"),
    (lambda x: x ** 2, "TypeError"),
    (lambda x: x[::2], "every 2th"),
    (lambda x: (x, x), "dict of named fields"),
    (lambda x: None, "NoneType"),
    (lambda x: {}, "without fields"),
    (lambda x: {1: x}, "names a field 1"),
    (lambda x: x + random.random(), "each time"),
    (lambda x: x + time.perf_counter(), "each time"),
    (lambda x: x + undefined, "NameError"),  # noqa: F821
    (lambda: 1, "TypeError"),
], ids=str)
def test_what_is_no_expression_is_refused_and_why(function, why):
    with pytest.raises(_trace.NotTraceable, match=why):
        traced(function)


def test_the_refusal_names_the_line_and_the_way_out():
    with pytest.raises(lockstep.InvalidArgument, match="`def` in a module") as caught:
        data.range(10).filter(lambda x: 1 < x < 5)
    line = inspect.currentframe().f_lineno - 1
    assert caught.value.reason == "definition_invalid"
    assert str(caught.value).partition(" ")[0].endswith(f"{HERE}:{line}:")
    assert caught.value.details["where"].endswith(f"{HERE}:{line}")


# --- Functions by reference ---------------------------------------------------------------------


def decode(element):
    return element


class Kind:
    @staticmethod
    def of(element):
        return element

    def bound(self, element):
        return element


def test_a_function_of_a_module_is_its_reference():
    assert _functions.reference_of(decode) == f"{__name__}:decode"
    assert _functions.reference_of(Kind.of) == f"{__name__}:Kind.of"


@pytest.mark.parametrize(("function", "why"), [
    (Kind().bound, "belongs to an object"),
    (lambda x: x, "lambda"),
    (len.__call__, "does not say|belongs"),
], ids=["bound", "lambda", "builtin"])
def test_a_function_that_others_would_not_find_is_refused(function, why):
    with pytest.raises(_functions.NoReference, match=why):
        _functions.reference_of(function)


def test_a_name_that_leads_elsewhere_is_no_reference(monkeypatch):
    kept = decode
    monkeypatch.setitem(globals(), "decode", len)
    with pytest.raises(_functions.NoReference, match="has another decode"):
        _functions.reference_of(kept)


@pytest.mark.parametrize("text", ["decode", "a:b:c", "a.:b", "a b:c", ":b", "a:", "1a:b", ""])
def test_a_text_that_is_no_reference_is_refused(text):
    with pytest.raises(lockstep.InvalidArgument, match="no reference"):
        data.range(3).map(text, returns="int64")
