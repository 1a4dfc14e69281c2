"""docs/settings.md lists every setting with its default, its values and its meaning, as the code has them."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import pytest

from handrail.cli.config import describe_values, show_value
from handrail.settings import AgentSettings, Settings, describe_fields
from tests.docs.pages import ROOT


def rows(kind: type[Settings] | type[AgentSettings]) -> list[str]:
    meanings, hints = describe_fields(kind), get_type_hints(kind)
    texts = [(field.name, show_value(field.default), describe_values(hints[field.name])) for field in fields(kind)]
    return [f"| `{name}` | {default} | {values} | {meanings[name]} |" for name, default, values in texts]


@pytest.mark.parametrize(("table", "kind"), [("settings", Settings), ("agent", AgentSettings)])
def test_the_table_of_settings_is_the_codes(table: str, kind: type[Settings] | type[AgentSettings]) -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    section = page.partition(f"## [{table}]\n")[2].partition("\n## ")[0]
    written = [line for line in section.splitlines() if line.startswith("| `")]
    assert written == rows(kind)
