"""Typed arguments of a tool: parsed, and described as a JSON schema.

A tool declares its arguments as a class with annotated fields, as a pydantic model does. Arguments that already have
the declared types are taken as they are. All others go through pydantic-core, which knows what can be converted and
names every mistake. It is imported only then: importing it takes longer than everything else that a first call needs
(see decision 019).
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NotRequired,
    Required,
    Self,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from handrail.frozen import frozen

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator
else:
    SchemaValidator = Any  # for the annotation below, which is evaluated

_REQUIRED = object()
_NO_BOUNDS = (None,) * 5
_SIMPLE = {str: ("str", "string"), int: ("int", "integer"), float: ("float", "number"), bool: ("bool", "boolean")}


@frozen
class Field:
    """Facts about an argument besides its type."""

    description: str = ""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    validate_default: bool = False
    hidden: bool = False
    """Not in the schema: for dialects alone."""


@frozen
class BeforeValidator:
    """Change a value before it is parsed."""

    function: Callable[[Any], Any]


def decode_json_text(value: object) -> object:
    """The value of a text of JSON, where a model sends that instead; anything else as it is."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


@frozen
class AfterValidator:
    """Check a value after it was parsed; the function raises `ValueError`.

    ``with_info``: the function also gets the name of the argument and the arguments parsed before it.
    """

    function: Callable[..., Any]
    with_info: bool = False


@frozen
class Argument:
    """One declared argument."""

    type: Any
    """Its type without marks; a union with None if it may be null."""
    marks: tuple[Any, ...]
    """Metadata that `Annotated` adds to the type."""
    default: Any = _REQUIRED

    @property
    def is_required(self) -> bool:
        return self.default is _REQUIRED

    @property
    def field(self) -> Field:
        """Its `Field`; a plain text in `Annotated` is its description."""
        for mark in self.marks:
            if isinstance(mark, Field | str):
                return mark if isinstance(mark, Field) else Field(mark)
        return Field()


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Arguments:
    """Base of the arguments of a tool. Unknown names are refused, and nothing changes after parsing."""

    _declared: ClassVar[Mapping[str, Argument]]
    _needed: ClassVar[frozenset[str]]
    """Those without a default that is taken as it is."""
    _defaults: ClassVar[Mapping[str, object]]
    _validator: ClassVar[SchemaValidator]

    def __init__(self, /, **values: object) -> None:
        self.__dict__.update(self.parse(values).__dict__)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be changed")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.declared())})"

    def check(self) -> None:
        """Check the arguments together; raises `ValueError`."""

    @classmethod
    def parse(cls, values: Mapping[str, object]) -> Self:
        """Parse ``values``; raises `pydantic_core.ValidationError` with every mistake."""
        try:
            parsed = cls.__new__(cls)
            parsed.__dict__.update(_take_exact(cls, values))
            cls.check(parsed)  # an argument may have the name of a method
        except (_NotExact, ValueError):
            parsed = _make_validator(cls).validate_python(values)
        return parsed

    @classmethod
    def declared(cls) -> Mapping[str, Argument]:
        """The arguments by name, in their order."""
        if "_declared" not in cls.__dict__:
            hints = get_type_hints(cls, include_extras=True)
            plain = {name: hint for name, hint in hints.items() if not name.startswith("_")}
            cls.declare({name: Argument(*_split(hint), getattr(cls, name, _REQUIRED)) for name, hint in plain.items()})
        return cls._declared

    @classmethod
    def declare(cls, declared: Mapping[str, Argument]) -> None:
        """Set the arguments by name, in their order."""
        items = declared.items()
        cls._declared = declared
        cls._needed = frozenset(name for name, one in items if one.is_required or one.field.validate_default)
        cls._defaults = {name: one.default for name, one in items}

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON schema, without what a model need not read: titles, nulls, empty defaults and lower bounds."""
        shown = {name: one for name, one in cls.declared().items() if not one.field.hidden}
        schema: dict[str, Any] = {
            "additionalProperties": False,
            "properties": {name: _describe_property(one) for name, one in shown.items()},
        }
        required = [name for name, one in shown.items() if one.is_required]
        return schema | ({"required": required} if required else {}) | {"type": "object"}


def _list_keys(kind: Any) -> dict[str, tuple[Any, bool]]:
    """The keys of a `TypedDict`: the type of each, and whether it is required."""
    keys = {}
    for key, hint in get_type_hints(kind, include_extras=True).items():
        origin = get_origin(hint)
        # The class itself does not know of `NotRequired` in annotations that are texts.
        required = origin is Required or (origin is not NotRequired and key in kind.__required_keys__)
        keys[key] = (get_args(hint)[0] if origin in (Required, NotRequired) else hint, required)
    return keys


def _split(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return (hint.__origin__, hint.__metadata__) if get_origin(hint) is Annotated else (hint, ())


class _NotExact(Exception):
    """A value has to be converted, or is wrong: pydantic-core decides."""


def _take_exact(args: type[Arguments], values: Mapping[str, object]) -> dict[str, object]:
    """The values as they are, if each has its declared type; raises `_NotExact` otherwise."""
    declared = args.declared()
    if not (declared.keys() >= values.keys() >= args._needed):
        raise _NotExact
    taken = {name: _take_marked(declared[name].type, declared[name].marks, value) for name, value in values.items()}
    return {**args._defaults, **taken}


def _take_marked(kind: object, marks: Sequence[object], value: object) -> object:
    for mark in marks:
        if isinstance(mark, BeforeValidator):
            value = mark.function(value)
    value = _take(kind, value)
    for mark in marks:
        if isinstance(mark, Field):
            _require_bounds(mark, value)
        elif isinstance(mark, AfterValidator):
            if mark.with_info:
                raise _NotExact
            value = mark.function(value)
    return value


def _take(kind: object, value: object) -> object:
    if type(value) is kind and kind in _SIMPLE:  # nearly always
        return value
    inner, marks = _split(kind)
    if marks:
        return _take_marked(inner, marks, value)
    if kind in _SIMPLE:
        raise _NotExact
    if kind is Any:
        return value
    if get_origin(kind) is Literal:
        if type(value) is not str or value not in get_args(kind):
            raise _NotExact
        return value
    if get_origin(kind) in (list, Sequence) and type(value) is list:
        return [_take(get_args(kind)[0], item) for item in value]
    if isinstance(kind, type) and issubclass(kind, Arguments):
        if type(value) is not dict:
            raise _NotExact
        return kind.parse(value)
    if get_origin(kind) in (Union, types.UnionType):
        return None if value is None else _take(_strip_none(kind), value)
    raise _NotExact


def _require_bounds(field: Field, value: Any) -> None:
    """Raise `_NotExact` for a value outside the bounds of a field."""
    if value is None or (field.min_length, field.max_length, field.ge, field.gt, field.le) == _NO_BOUNDS:
        return
    size = len(value) if isinstance(value, str | list) else None
    if isinstance(value, str) and not value.isascii():  # pydantic-core measures no text with lone surrogates
        raise _NotExact
    low, high = field.min_length, field.max_length
    if size is not None and ((low is not None and size < low) or (high is not None and size > high)):
        raise _NotExact
    if size is None and not (
        (field.ge is None or value >= field.ge)
        and (field.gt is None or value > field.gt)
        and (field.le is None or value <= field.le)
    ):
        raise _NotExact


def _make_validator(args: type[Arguments]) -> SchemaValidator:
    if "_validator" not in args.__dict__:
        from pydantic_core import SchemaValidator  # slow to import, and only needed for what is not exact

        args._validator = SchemaValidator(_build_model(args))
    return args._validator


def _build_model(args: type[Arguments]) -> Any:
    """The pydantic-core schema of a class of arguments."""
    fields = {name: {"type": "model-field", "schema": _build_field(name, one)} for name, one in args.declared().items()}
    inner = {"type": "model-fields", "model_name": args.__name__, "fields": fields, "extra_behavior": "forbid"}
    model = {"type": "model", "cls": args, "schema": inner}
    if args.check is Arguments.check:
        return model

    def check(parsed: Arguments) -> Arguments:
        args.check(parsed)
        return parsed

    return {"type": "function-after", "function": {"type": "no-info", "function": check}, "schema": model}


def _build_field(name: str, one: Argument) -> object:
    schema = _add_constraints(one.type, one.marks, name)
    if one.is_required:
        return schema
    return {
        "type": "default",
        "schema": schema,
        "default": one.default,
        "validate_default": one.field.validate_default,
    }


def _add_constraints(kind: object, marks: Sequence[object], name: str) -> Any:
    schema = _type(kind, name)
    for mark in marks:
        if isinstance(mark, Field):
            _constrain(schema, mark)
        elif isinstance(mark, BeforeValidator):
            function: dict[str, Any] = {"type": "no-info", "function": mark.function}
            schema = {"type": "function-before", "function": function, "schema": schema}
        elif isinstance(mark, AfterValidator):
            function = {"type": "no-info", "function": mark.function}
            if mark.with_info:
                function = {"type": "with-info", "function": mark.function, "field_name": name}
            schema = {"type": "function-after", "function": function, "schema": schema}
    return schema


def _type(kind: object, name: str) -> Any:
    inner, marks = _split(kind)
    if marks:
        return _add_constraints(inner, marks, name)
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind][0]}
    if isinstance(kind, type) and issubclass(kind, Arguments):
        return _build_model(kind)
    if kind is Any:
        return {"type": "any"}
    if get_origin(kind) is Literal:
        return {"type": "literal", "expected": list(get_args(kind))}
    if get_origin(kind) in (dict, Mapping):
        return {"type": "dict", "keys_schema": {"type": "str"}, "values_schema": _type(get_args(kind)[1], name)}
    if is_typeddict(kind):
        fields = {
            key: {"type": "typed-dict-field", "schema": _type(one, name), "required": required}
            for key, (one, required) in _list_keys(kind).items()
        }
        return {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid"}
    if get_origin(kind) in (list, Sequence):
        return {"type": "list", "items_schema": _type(get_args(kind)[0], name)}
    return {"type": "nullable", "schema": _type(_strip_none(kind), name)}


def _strip_none(kind: object) -> object:
    """The type of a value that may be null."""
    if get_origin(kind) in (Union, types.UnionType):
        others = [one for one in get_args(kind) if one is not types.NoneType]
        if len(others) == 1 and len(get_args(kind)) == 2:
            return others[0]
    raise TypeError(f"an argument cannot be of type {kind!r}")


def _constrain(schema: dict[str, Any], field: Field) -> None:
    """Put the bounds of a field on the schema that knows them: below null, functions and the like."""
    while "schema" in schema and schema["type"] != "model":
        schema = schema["schema"]
    bounds = ("min_length", "max_length") if schema["type"] in ("str", "list") else ("ge", "gt", "le")
    schema |= {name: getattr(field, name) for name in bounds if getattr(field, name) is not None}


def _describe_property(one: Argument) -> dict[str, object]:
    schema = _describe_type(one.type, one.field)
    if one.field.description:
        schema["description"] = one.field.description
    if not one.is_required and one.default:
        schema["default"] = one.default
    return dict(sorted(schema.items()))


def _describe_type(kind: object, field: Field) -> dict[str, object]:
    inner, marks = _split(kind)
    if marks:
        return _describe_type(inner, next((mark for mark in marks if isinstance(mark, Field)), field))
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind][1]} | ({"maximum": field.le} if field.le is not None else {})
    if isinstance(kind, type) and issubclass(kind, Arguments):
        return kind.json_schema()
    if kind is Any:
        return {}
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind)), "type": "string"}
    if get_origin(kind) in (dict, Mapping):
        return {"additionalProperties": _describe_type(get_args(kind)[1], Field()), "type": "object"}
    if is_typeddict(kind):
        keys = _list_keys(kind)
        properties = {key: _describe_property(Argument(*_split(one))) for key, (one, _) in keys.items()}
        needed = [key for key, (_, required) in keys.items() if required]
        return {"additionalProperties": False, "properties": properties, "required": needed, "type": "object"}
    if get_origin(kind) in (list, Sequence):
        most = {"minItems": field.min_length, "maxItems": field.max_length}
        items = {"items": _describe_type(get_args(kind)[0], Field()), "type": "array"}
        return items | {name: value for name, value in most.items() if value is not None}
    return _describe_type(_strip_none(kind), field)
