"""Handrail: the hands of a coding agent.

    from handrail import Session
    session = Session("path/to/project")
    result = session.call("Read", {"file_path": "README.md"})
    print(result.text, result.status, result.notes)

The names below are the public API; they are imported when first used, so that `import handrail` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from handrail.dialects import Dialect, Spec
    from handrail.errors import ToolError
    from handrail.journal import Journal, Record
    from handrail.nouns import Note, Result, Touch, Verdict
    from handrail.policy import Policy
    from handrail.prepared import Prepared
    from handrail.session import Session
    from handrail.settings import Settings
    from handrail.workspace import Root

__version__ = "0.1.0"

_HOMES = {
    "Session": "session",
    "Prepared": "prepared",
    "Settings": "settings",
    "Root": "workspace",
    "Result": "nouns",
    "Note": "nouns",
    "Touch": "nouns",
    "Verdict": "nouns",
    "Policy": "policy",
    "Journal": "journal",
    "Record": "journal",
    "Dialect": "dialects",
    "Spec": "dialects",
    "ToolError": "errors",
}

__all__ = [
    "Dialect",
    "Journal",
    "Note",
    "Policy",
    "Prepared",
    "Record",
    "Result",
    "Root",
    "Session",
    "Settings",
    "Spec",
    "ToolError",
    "Touch",
    "Verdict",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'handrail' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"handrail.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
