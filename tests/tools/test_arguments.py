"""Arguments that have their types are taken as they are, exactly as pydantic-core would return them."""

from __future__ import annotations

import random
from typing import Annotated, Any

import pytest
from pydantic_core import ValidationError

from handrail import tools
from handrail.tools import arguments
from handrail.tools.arguments import AfterValidator, Arguments, Field

VALUES: list[Any] = [
    *("", "a", "é", "\ud800", "12", "-1", "0", "1.5", "true", "yes", "replace", "insert", "delete", "code", "view"),
    *("content", "newest", '["a"]', '[{"old_string": "a", "new_string": "b"}]', "x" * 5000, b"x"),
    *(0, 1, -1, 2, 11, 10**30, 1.5, 2.0, float("nan"), float("inf"), True, False, None),
    *([], ["a"], [1, 2], [2, 1], ["1", "-1"], ("a", "b"), {}, {"a": 1}, [{"old_string": "a", "new_string": "b"}]),
    *([{"old_string": 1}], [{"x": 1}], ["bash", "-c", "ls"], [{"from": "1#ab", "to": "2#cd", "text": "x"}]),
]


def generated(args: type[Arguments], seed: str) -> list[dict[str, Any]]:
    """Arguments with right and wrong names and values; for each name also one that is often right."""
    rng = random.Random(seed)
    names = list(args.declared())
    collected: list[dict[str, Any]] = []
    for _ in range(300):
        given = [name for name in names if args.declared()[name].is_required or rng.random() < 0.3]
        given += ["unknown"] if rng.random() < 0.1 else []
        values = {name: rng.choice(VALUES) for name in given}
        for name in values:
            if name in names and rng.random() < 0.7:
                values[name] = rng.choice([value for value in VALUES if type(value) in _likely(args, name)])
        collected.append(values)
    return collected


def _likely(args: type[Arguments], name: str) -> tuple[type, ...]:
    text = str(args.declared()[name].type)
    return tuple(kind for kind in (str, int, float, bool, list) if kind.__name__ in text) or (str,)


@pytest.mark.parametrize("tool_id", tools.list_ids())
def test_values_that_are_taken_as_they_are_equal_those_that_are_parsed(tool_id: str) -> None:
    args = tools.load(tool_id).args
    exact = 0
    for values in generated(args, tool_id):
        try:
            taken = arguments._take_exact(args, values)
        except (arguments._NotExact, ValueError):
            continue
        exact += 1
        try:
            parsed = arguments._make_validator(args).validate_python(values)
        except ValidationError:
            with pytest.raises(ValidationError):  # arguments that do not fit together
                args.parse(values)
        else:
            assert repr(taken) == repr({name: getattr(parsed, name) for name in args.declared()}), values
    assert exact or tool_id == "notebook_edit", "no generated arguments were exact"


class Pair(Arguments):
    first: Annotated[int, Field(ge=0)]
    second: Annotated[int | None, AfterValidator(lambda value: value)] = None

    def check(self) -> None:
        if self.second is not None and self.second < self.first:
            raise ValueError("the second comes after the first")


def test_every_mistake_is_named_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        Pair.parse({"first": "x", "second": [], "third": 1})
    assert [error["loc"] for error in caught.value.errors()] == [("first",), ("second",), ("third",)]


def test_arguments_are_checked_together() -> None:
    assert repr(Pair.parse({"first": "1", "second": 2})) == repr(Pair(first=1, second=2))
    with pytest.raises(ValidationError, match="comes after"):
        Pair.parse({"first": 3, "second": 2})


def test_nothing_changes_after_parsing() -> None:
    pair = Pair(first=1)
    with pytest.raises(AttributeError, match="first"):
        pair.first = 2  # type: ignore[misc]
    assert (pair.first, pair.second) == (1, None)


def test_a_type_that_cannot_be_parsed_is_refused_by_name() -> None:
    class Odd(Arguments):
        value: set[int]

    with pytest.raises(TypeError, match="set"):
        Odd.parse({"value": {}})
