"""Names of the release before: they still work, and warn."""

from __future__ import annotations

import importlib
import sys

import pytest

import handrail
from handrail.journal import PendingRecord
from handrail.model import Access, Result


def test_the_old_name_of_access_warns() -> None:
    with pytest.warns(DeprecationWarning, match=r"handrail\.Access"):
        assert handrail.Touch is Access


def test_the_old_name_of_a_pending_record_warns() -> None:
    with pytest.warns(DeprecationWarning, match=r"handrail\.PendingRecord"):
        assert handrail.Opening is PendingRecord


def test_the_old_name_of_the_accesses_of_a_result_warns() -> None:
    result = Result("Read", "ok", "", (), accesses=(Access("read", "a"),))
    with pytest.warns(DeprecationWarning, match=r"Result\.accesses"):
        assert result.touches == result.accesses


def test_the_old_name_of_the_integrations_warns() -> None:
    sys.modules.pop("handrail.exports", None)
    with pytest.warns(DeprecationWarning, match=r"handrail\.integrations"):
        module = importlib.import_module("handrail.exports.openai")
    assert callable(module.chat_tools)


@pytest.mark.parametrize(("module", "new"), [("langchain", "LangChainTool"), ("smolagents", "SmolagentsTool")])
def test_the_old_name_of_the_tool_of_an_integration_warns(module: str, new: str) -> None:
    pytest.importorskip("langchain_core" if module == "langchain" else module, reason="the framework is not installed")
    integration = importlib.import_module(f"handrail.integrations.{module}")
    with pytest.warns(DeprecationWarning, match=new):
        assert integration.HandrailTool is getattr(integration, new)
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        integration.Missing  # noqa: B018
