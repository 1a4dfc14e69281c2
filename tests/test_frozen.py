"""Classes made by `frozen` behave like dataclasses that are frozen and have slots."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any, ClassVar

import pytest

from handrail.frozen import frozen


@frozen
class Point:
    """A place."""

    x: int
    y: int = 0
    label: str = field(default="", compare=False, repr=False)
    marks: list[str] = field(default_factory=list)
    origin: ClassVar[str] = "here"


@dataclass(frozen=True, slots=True)
class StandardPoint:
    """A place."""

    x: int
    y: int = 0
    label: str = field(default="", compare=False, repr=False)
    marks: list[str] = field(default_factory=list)
    origin: ClassVar[str] = "here"


@frozen
class Circle(Point):
    radius: int = field(kw_only=True)
    area: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "area", 3 * self.radius**2)


@dataclass(frozen=True, slots=True)
class Square(Point):
    """Of another package, with the standard decorator."""

    side: int = 1


@frozen
class Cube(Square):
    height: int = 1


@frozen
class Nothing:
    """No fields at all."""


BOTH = pytest.mark.parametrize("kind", [Point, StandardPoint])


@BOTH
def test_fields_are_set_in_their_order_or_by_name(kind: Any) -> None:
    assert dataclasses.astuple(kind(1, 2, "a", ["b"])) == (1, 2, "a", ["b"])
    assert dataclasses.asdict(kind(x=1)) == {"x": 1, "y": 0, "label": "", "marks": []}
    assert kind(1).marks is not kind(1).marks
    for wrong in ({}, {"x": 1, "z": 2}):
        with pytest.raises(TypeError, match=rf"{kind.__name__}\.__init__\(\)"):
            kind(**wrong)


@BOTH
def test_objects_are_equal_by_their_fields(kind: Any) -> None:
    assert kind(1, 2, "a") == kind(1, 2, "b") != kind(1, 3)
    assert kind(1) != (1, 0, "", [])
    assert repr(kind(1, 2)) == f"{kind.__name__}(x=1, y=2, marks=[])"
    assert replace(kind(1, 2), y=3) == kind(1, 3)


@BOTH
def test_nothing_can_be_assigned(kind: Any) -> None:
    point = kind(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    with pytest.raises((FrozenInstanceError, TypeError)):  # the standard one raises both
        point.other = 2
    assert not hasattr(point, "__dict__")


@BOTH
def test_objects_are_copied_pickled_and_matched(kind: Any) -> None:
    point = kind(1, 2, "a", ["b"])
    for other in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert dataclasses.astuple(other) == dataclasses.astuple(point)
    match point:
        case kind(x, y):
            assert (x, y) == (1, 2)
        case _:
            pytest.fail("it did not match")


@BOTH
def test_parameters_can_be_inspected(kind: Any) -> None:
    assert [(one.name, one.annotation) for one in inspect.signature(kind).parameters.values()] == [
        ("x", "int"),
        ("y", "int"),
        ("label", "str"),
        ("marks", "list[str]"),
    ]
    assert [one.name for one in dataclasses.fields(kind)] == ["x", "y", "label", "marks"]


def test_a_class_inherits_fields_and_computes_others() -> None:
    circle = Circle(1, radius=2)
    assert (circle.x, circle.area) == (1, 12)
    assert circle == Circle(1, radius=2) != Circle(1, radius=3) and circle != Point(1)
    assert {Nothing(), Nothing()} == {Nothing()}
    assert len({StandardPoint, Point, Circle}) == 3
    with pytest.raises(TypeError, match="radius"):
        Circle(1)  # type: ignore[call-arg]


def test_both_decorators_inherit_from_each_other() -> None:
    cube = replace(Cube(1, side=2), height=3)
    assert dataclasses.astuple(cube) == (1, 0, "", [], 2, 3)
    assert cube == Cube(1, side=2, height=3) != Cube(2, side=2, height=3)
    assert repr(Square(1)) == "Square(x=1, y=0, marks=[], side=1)"
    for one in (cube, Square(1)):
        with pytest.raises(FrozenInstanceError):
            one.x = 2  # type: ignore[misc]


def test_only_hashable_fields_can_be_hashed() -> None:
    marks: Any = ()
    assert hash(Point(1, marks=marks)) == hash(Point(1, label="a", marks=marks))
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1))
