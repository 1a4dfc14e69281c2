"""Every value that goes to a remote session or a draft comes back as it was, whatever its fields hold."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.dialects import Spec
from handrail.drafts.changes import FileSummary
from handrail.journal.undo import UndoReport
from handrail.model import (
    Access,
    CommandAccess,
    FileAccess,
    NetworkAccess,
    Question,
    Result,
    ToolAccess,
    access_as_json,
    read_access,
)
from handrail.pipeline import remote_values as values
from tests.sizes import pick

EXAMPLES = pick(50, 2000)
JSON = st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.booleans(), st.none()))
IN_ONE_PROCESS = {"script", "cancel"}
"""Fields that stay in the process of the judge; a script follows from its command."""


def list_fields(kind: type) -> dict[str, Any]:
    """The types of the fields that are sent."""
    hints = get_type_hints(kind)
    return {
        name: hints[name] for name in hints if name not in IN_ONE_PROCESS and get_origin(hints[name]) is not ClassVar
    }


def generate(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a type; objects of ours field by field, so that a field which is added later is tried as well."""
    if get_origin(hint) is tuple:
        return st.lists(generate(get_args(hint)[0]), max_size=3).map(tuple)
    if isinstance(hint, type) and hint.__module__.startswith("handrail."):
        return st.builds(hint, **{name: generate(one) for name, one in list_fields(hint).items()})
    if hint is Access:
        return st.one_of(*map(generate, get_args(hint)))
    if str(hint).startswith("collections.abc.Mapping"):
        return JSON
    if hint is float:
        return st.floats(allow_nan=False)
    return st.from_type(hint)


def pass_through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


@settings(max_examples=EXAMPLES)
@given(generate(Access))
def test_an_access_comes_back_as_it_was(access: Access) -> None:
    assert read_access(pass_through_json(access_as_json(access))) == access


PLAIN = (FileAccess("read", "a.py"), CommandAccess("ls"), NetworkAccess("example.org"), ToolAccess("t"))


@pytest.mark.parametrize(
    ("plain", "name"),
    [(one, name) for one in PLAIN for name in list_fields(type(one)) if name != "mentions"],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_no_field_of_an_access_is_lost_or_taken_unread(plain: Access, name: str) -> None:
    hint = list_fields(type(plain))[name]
    others = get_args(hint) if get_origin(hint) is Literal else (True,) if hint is bool else ("x",)
    for other in others:
        sent = pass_through_json({**access_as_json(plain), name: other})
        assert getattr(read_access(sent), name) == other
    for wrong in (3, None, ["read"], "no such word" if hint is not str else 0.5):
        with pytest.raises((TypeError, KeyError)):
            read_access({**access_as_json(plain), name: wrong})


@settings(max_examples=EXAMPLES)
@given(generate(Result))
def test_a_result_comes_back_as_it_was(result: Result) -> None:
    assert values.read_result(pass_through_json(values.result_as_json(result))) == result


@settings(max_examples=EXAMPLES)
@given(generate(Question))
def test_a_question_comes_back_as_it_was(question: Question) -> None:
    assert Question.from_json(pass_through_json(question.as_json())) == question


@settings(max_examples=EXAMPLES)
@given(generate(Spec), generate(UndoReport), st.lists(generate(FileSummary), max_size=3))
def test_definitions_and_reports_come_back_as_they_were(
    spec: Spec, report: UndoReport, summaries: list[FileSummary]
) -> None:
    assert values.read_spec(pass_through_json(values.spec_as_json(spec))) == spec
    assert values.read_report(pass_through_json(asdict(report))) == report
    assert values.read_summaries(pass_through_json([asdict(one) for one in summaries])) == summaries
