"""JSON as programs send and get it: strict when it is read, in ASCII and well-formed Unicode when it is written."""

from __future__ import annotations

import json

from handrail.text.display import replace_surrogates

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from typing import Any

_KINDS = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}


def parse_json(raw: bytes) -> Any:
    """Parse one JSON value; raises `ValueError` with the reason for any invalid input."""
    try:
        return json.loads(raw.decode("utf-8-sig"), parse_constant=_refuse_constant, parse_float=_parse_finite)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 (byte {error.start + 1} is 0x{raw[error.start]:02x})") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def write_json(value: object) -> str:
    """A value from `parse_json`, back as it came."""
    try:
        return json.dumps(value)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def as_line(value: object) -> str:
    """JSON on one line, in ASCII and well-formed Unicode, so that any reader in any locale can take it."""
    text = json.dumps(value, allow_nan=False)
    if "\\ud" in text:  # perhaps half a character, which strict readers refuse
        text = json.dumps(json.loads(replace_surrogates(json.dumps(value, allow_nan=False, ensure_ascii=False))))
    return text


def name_kind(value: object) -> str:
    """Name the type of a JSON value."""
    return _KINDS.get(type(value), "null")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _parse_finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number
