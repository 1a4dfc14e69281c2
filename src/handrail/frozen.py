"""Frozen classes: `dataclass(frozen=True, slots=True)`, created in a quarter of the time.

About eighty of them exist before the first answer of a process, and the standard decorator compiles up to seven
functions for each. Here only `__init__` is compiled; the other methods are shared. `replace`, `fields` and `asdict` of
the standard module work, and so do `match`, `copy` and `pickle`.
"""

from __future__ import annotations

import inspect
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from types import MemberDescriptorType
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Turn a class with annotated names into a frozen one with slots."""
    own = _collect_fields(cls)
    inherited: dict[str, Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        inherited |= getattr(base, "__dataclass_fields__", {})
    body = {name: value for name, value in cls.__dict__.items() if name not in ("__dict__", "__weakref__")}
    for one in fields(own):
        body.pop(one.name, None)  # its default, where its slot will be
    body["__slots__"] = tuple(one.name for one in fields(own) if one.name not in inherited)
    body["__dataclass_fields__"] = inherited | own.__dataclass_fields__
    body["__dataclass_params__"] = _Standard.__dataclass_params__  # type: ignore[attr-defined]
    body |= _SHARED
    metaclass: Any = type(cls)
    created: Any = metaclass(cls.__name__, cls.__bases__, body)
    created.__qualname__ = cls.__qualname__
    described = fields(created)
    arguments = [one.name for one in described if one.init and not one.kw_only]
    created.__match_args__ = tuple(arguments)  # type: ignore[misc]
    created.__init__ = _compile_init(created, described)
    compared = [one.name for one in described if one.compare]
    created.__compared__ = staticmethod(attrgetter(*compared) if compared else lambda _: ())
    return created  # type: ignore[no-any-return]


def _collect_fields(cls: type) -> Any:
    """Have the standard module read the fields of a class, without those of its bases."""
    names = inspect.get_annotations(cls)
    defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
    # Without a text the standard module would compute a signature.
    alone = {"__annotations__": names, "__module__": cls.__module__, "__doc__": cls.__name__}
    return dataclass(init=False, repr=False, eq=False)(type(cls.__name__, (), defaults | alone))


@dataclass(frozen=True, slots=True)
class _Standard:
    """Has the parameters that the standard module asks for when a class inherits."""


def _compile_init(cls: type, described: tuple[Field[object], ...]) -> Any:
    """Compile a function that takes the fields in their order, and those with ``kw_only`` by name."""
    positional, named, body = ["self"], ["*"], list[str]()
    names: dict[str, Any] = {"__name__": cls.__module__, "set_field": object.__setattr__, "MISSING": MISSING}
    for one in described:
        if not one.init:
            continue
        default, value = "", one.name
        if one.default is not MISSING:
            names[f"default_{one.name}"] = one.default
            default = f"=default_{one.name}"
        elif one.default_factory is not MISSING:
            names[f"create_{one.name}"] = one.default_factory
            default, value = "=MISSING", f"create_{one.name}() if {one.name} is MISSING else {one.name}"
        (named if one.kw_only else positional).append(one.name + default)
        slot = getattr(cls, one.name, None)
        if isinstance(slot, MemberDescriptorType):  # setting it directly takes half as long
            names[f"set_{one.name}"] = slot.__set__
            body.append(f"set_{one.name}(self, {value})")
        else:
            body.append(f"set_field(self, {one.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*positional, *(named if len(named) > 1 else [])])
    exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), names)  # noqa: S102 - names of fields
    init = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {one.name: one.type for one in described if one.init} | {"return": None}
    return init


class _Methods:
    __compared__: Any
    """Reads the fields by which two objects are compared."""

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return bool(self.__compared__(self) == self.__compared__(other))

    def __hash__(self) -> int:
        return hash(self.__compared__(self))

    def __repr__(self) -> str:
        described = fields(self)  # type: ignore[arg-type]  # these are the methods of dataclasses
        shown = (f"{one.name}={getattr(self, one.name)!r}" for one in described if one.repr)
        return f"{self.__class__.__qualname__}({', '.join(shown)})"

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __getstate__(self) -> list[object]:
        return [getattr(self, one.name) for one in fields(self)]  # type: ignore[arg-type]

    def __setstate__(self, state: list[object]) -> None:
        for one, value in zip(fields(self), state, strict=True):  # type: ignore[arg-type]
            object.__setattr__(self, one.name, value)


_SHARED = {name: method for name, method in vars(_Methods).items() if callable(method)}
"""Other classes inherit from a frozen one with the standard decorator too, and then get methods of their own."""
