"""What the model of an attached agent reads has the names of that agent's tools and arguments, or none."""

from __future__ import annotations

import pytest

from handrail import dialects
from handrail.attach.contracts import CONTRACTS


@pytest.mark.parametrize("agent", CONTRACTS)
def test_a_message_names_the_tools_of_the_agent_or_none(agent: str) -> None:
    contract = CONTRACTS[agent]
    known = {*contract.commands, *contract.edits, *contract.reads, *contract.patches}
    assert {name for fact, name in contract.names.items() if fact.startswith("tool_")} <= known
    messages = dialects.load("native").with_names(contract.names).templates
    keys = [key for key in messages.messages if key.endswith(("swept", "held_open", "protected_put_back"))]
    assert len(keys) == 3
    for key in keys:
        text = messages.fill(key, processes="p", paths="p", by="it", change="changed")
        for fact, name in contract.names.items():
            assert (f"{{{fact}}}" in messages.messages[key]) <= (name in text), (key, fact)
        if "arg_bash_background" not in contract.names:
            assert "background" not in text
