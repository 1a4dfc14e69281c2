"""What Handrail uses of pydantic-core, in Python: checks arguments by the schemas of `tools/arguments.py`.

Texts that spell a number or a truth value are accepted, as there; the messages are shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import ge, gt, le
from typing import Any


class PydanticKnownError(ValueError):
    """A mistake by its type."""

    def __init__(self, type: str, context: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{type.replace('_', ' ')}{'' if not context else ' ' + repr(dict(context))}")
        self.type = type


class PydanticCustomError(PydanticKnownError):
    """A mistake with a message of its own."""

    def __init__(self, type: str, message: str, context: Mapping[str, Any] | None = None) -> None:
        super().__init__(type)
        self.args = (message.format(**(context or {})),)


class ValidationError(ValueError):
    """All mistakes in the arguments of a call."""

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        super().__init__(f"{len(errors)} mistakes")
        self._errors = errors

    def errors(self, **_: Any) -> list[dict[str, Any]]:
        return self._errors


class SchemaValidator:
    """Checks values by a schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema

    def validate_python(self, value: Any) -> Any:
        errors: list[dict[str, Any]] = []
        checked = _check(self._schema, value, (), errors)
        if errors:
            raise ValidationError(errors)
        return checked


Place = tuple[str | int, ...]
Errors = list[dict[str, Any]]


class _Info:
    def __init__(self, name: str) -> None:
        self.field_name = name


def _check(schema: Mapping[str, Any], value: Any, place: Place, errors: Errors) -> Any:
    """The value as the schema has it; what is wrong is added to ``errors``."""
    try:
        return _CHECKS[schema["type"]](schema, value, place, errors)
    except PydanticKnownError as error:
        errors.append({"type": error.type, "loc": place, "msg": str(error), "input": value})
    except ValueError as error:
        errors.append({"type": "value_error", "loc": place, "msg": str(error), "input": value})
    return None


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise ValueError(text)


def _check_bounds(schema: Mapping[str, Any], size: float) -> None:
    for name, holds in (("min_length", ge), ("max_length", le), ("ge", ge), ("gt", gt), ("le", le)):
        if name in schema:
            _require(holds(size, schema[name]), f"Must have {name} {schema[name]}")


def _check_str(schema: Mapping[str, Any], value: Any, _: Place, __: Errors) -> str:
    _require(isinstance(value, str), "Input should be a valid string")
    _check_bounds(schema, len(value))
    return str(value)


def _check_number(schema: Mapping[str, Any], value: Any, _: Place, __: Errors) -> float:
    kind: type[int] | type[float] = int if schema["type"] == "int" else float
    text = "Input should be a valid integer" if kind is int else "Input should be a valid number"
    _require(isinstance(value, str | int | float) and not isinstance(value, bool), text)
    try:
        number = kind(value)
    except (ValueError, OverflowError):
        raise ValueError(text) from None
    _require(isinstance(value, str) or number == value, text)
    _check_bounds(schema, number)
    return number


def _check_bool(_: Mapping[str, Any], value: Any, __: Place, ___: Errors) -> bool:
    known = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False, "on": True, "off": False}
    read = value if isinstance(value, bool) else known.get(str(value).lower())
    _require(read is not None, "Input should be a valid boolean")
    return bool(read)


def _check_list(schema: Mapping[str, Any], value: Any, place: Place, errors: Errors) -> list[Any]:
    _require(isinstance(value, list | tuple), "Input should be a valid list")
    _check_bounds(schema, len(value))
    return [_check(schema["items_schema"], one, (*place, number), errors) for number, one in enumerate(value)]


def _check_literal(schema: Mapping[str, Any], value: Any, _: Place, __: Errors) -> Any:
    _require(value in schema["expected"], f"Input should be one of {', '.join(map(repr, schema['expected']))}")
    return value


def _check_fields(schema: Mapping[str, Any], value: Any, place: Place, errors: Errors) -> dict[str, Any]:
    _require(isinstance(value, Mapping), "Input should be an object")
    checked = {}
    for name, field in schema["fields"].items():
        inner = field["schema"]
        if name in value:
            checked[name] = _check(inner, value[name], (*place, name), errors)
        elif inner["type"] == "default":
            default = inner["default"]
            checked[name] = _check(inner, default, (*place, name), errors) if inner["validate_default"] else default
        elif field.get("required", True):
            errors.append({"type": "missing", "loc": (*place, name), "msg": "Field required", "input": value})
    for name in value.keys() - schema["fields"].keys():
        errors.append({"type": "extra_forbidden", "loc": (*place, name), "msg": "", "input": value[name]})
    return checked


def _check_model(schema: Mapping[str, Any], value: Any, place: Place, errors: Errors) -> Any:
    count = len(errors)
    checked = _check(schema["schema"], value, place, errors)
    if len(errors) > count:
        return None
    model = schema["cls"].__new__(schema["cls"])
    model.__dict__.update(checked)
    return model


def _check_dict(schema: Mapping[str, Any], value: Any, place: Place, errors: Errors) -> dict[Any, Any]:
    _require(isinstance(value, Mapping), "Input should be an object")
    return {
        _check(schema["keys_schema"], key, (*place, key), errors): _check(
            schema["values_schema"], one, (*place, key), errors
        )
        for key, one in value.items()
    }


def _call(schema: Mapping[str, Any], value: Any) -> Any:
    function: Mapping[str, Any] = schema["function"]
    if function["type"] == "with-info":
        return function["function"](value, _Info(function["field_name"]))
    return function["function"](value)


def _check_before(schema: Mapping[str, Any], value: Any, place: Place, errors: Errors) -> Any:
    return _check(schema["schema"], _call(schema, value), place, errors)


def _check_after(schema: Mapping[str, Any], value: Any, place: Place, errors: Errors) -> Any:
    count = len(errors)
    checked = _check(schema["schema"], value, place, errors)
    return _call(schema, checked) if len(errors) == count else None


def _check_nullable(schema: Mapping[str, Any], value: Any, place: Place, errors: Errors) -> Any:
    return None if value is None else _check(schema["schema"], value, place, errors)


def _check_inner(schema: Mapping[str, Any], value: Any, place: Place, errors: Errors) -> Any:
    return _check(schema["schema"], value, place, errors)


_CHECKS: dict[str, Callable[[Mapping[str, Any], Any, Place, Errors], Any]] = {
    "str": _check_str,
    "int": _check_number,
    "float": _check_number,
    "bool": _check_bool,
    "list": _check_list,
    "literal": _check_literal,
    "any": lambda _, value, __, ___: value,
    "dict": _check_dict,
    "typed-dict": _check_fields,
    "model-fields": _check_fields,
    "model": _check_model,
    "default": _check_inner,
    "nullable": _check_nullable,
    "function-before": _check_before,
    "function-after": _check_after,
}
