"""Settings refuse a value that does not fit its field, and say what would fit."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

import pytest

from handrail import AgentSettings, Settings

KINDS: tuple[type[Settings | AgentSettings], ...] = (Settings, AgentSettings)
ODD: tuple[Any, ...] = ("nope", "", b"bytes", 3, -1, 1.5, float("nan"), True, None, ("a",), (1,), ["a"], {}, object())


def parts(hint: Any) -> list[Any]:
    """The types of a union, or the one type."""
    return list(get_args(hint)) if type(None) in get_args(hint) else [hint]


def belongs(value: Any, hint: Any) -> bool:
    """Whether the annotation allows the value, spelled out once more, kind by kind."""
    for one in parts(hint):
        if get_origin(one) is Literal:
            fits = value in [*get_args(one)]
        elif get_origin(one) is tuple:
            fits = type(value) is tuple and all(type(item) is str for item in value)
        elif one is int:
            fits = type(value) is int and value >= 0
        elif one is float:
            fits = type(value) in (int, float) and value >= 0
        else:
            fits = type(value) is one
        if fits:
            return True
    return False


def cases() -> list[Any]:
    return [
        pytest.param(kind, field.name, value, id=f"{kind.__name__}-{field.name}-{value!r:.20}")
        for kind in KINDS
        for field in dataclasses.fields(kind)
        for value in ODD
        if not belongs(value, get_type_hints(kind)[field.name])
    ]


@pytest.mark.parametrize(("kind", "name", "value"), cases())
def test_a_value_that_does_not_fit_is_refused_by_field_and_value(
    kind: type[Settings | AgentSettings], name: str, value: Any
) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be ") as refused:
        kind(**{name: value})
    assert str(refused.value).endswith(f", not {value!r}")


@pytest.mark.parametrize("kind", KINDS)
def test_the_message_lists_every_valid_value(kind: type[Settings | AgentSettings]) -> None:
    checked = 0
    for name, hint in get_type_hints(kind).items():
        for one in parts(hint):
            if get_origin(one) is Literal:
                with pytest.raises(ValueError, match=f"^{name}") as refused:
                    kind(**cast("Any", {name: "nope"}))
                assert all(repr(choice) in str(refused.value) for choice in get_args(one))
                assert all(getattr(kind(**{name: choice}), name) == choice for choice in get_args(one))
                checked += 1
    assert checked >= (4 if kind is Settings else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_that_fits_is_taken(kind: type[Settings | AgentSettings]) -> None:
    kind()
    for name, hint in get_type_hints(kind).items():
        for value in ODD:
            if belongs(value, hint) and name not in ("legacy_encoding", "journal"):
                assert getattr(kind(**{name: value}), name) is value


def test_a_long_value_is_cut() -> None:
    with pytest.raises(ValueError, match=r"^sandbox") as refused:
        Settings(sandbox="x" * 10_000)  # type: ignore[arg-type]
    assert len(str(refused.value)) < 200


def test_an_encoding_and_a_pattern_must_exist() -> None:
    with pytest.raises(ValueError, match="legacy_encoding: unknown encoding 'nope'"):
        Settings(legacy_encoding="nope")
    with pytest.raises(ValueError, match=r"redact_patterns: '\(' is not a regular expression"):
        Settings(redact_patterns=("(",))
