"""The tools. The folder is the registry: `NAME.py` beside `NAME.md` is a tool, imported when it is asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from handrail.tools.tool import AnyTool

HERE = Path(__file__).parent


@cache
def list_ids() -> tuple[str, ...]:
    """The tools that come with Handrail."""
    return tuple(sorted(path.stem for path in HERE.glob("*.md")))


@cache
def load(tool_id: str) -> AnyTool:
    """The tool of that id; one of another package if it registers itself under `handrail.tools`."""
    tool: AnyTool = (
        import_module(f"handrail.tools.{tool_id}").TOOL
        if tool_id in list_ids()
        else find_entry_points(tool_id)[0].load()
    )
    return tool


def find_entry_points(tool_id: str) -> list[EntryPoint]:
    """Tools of that id in other packages."""
    from importlib.metadata import entry_points

    return list(entry_points(group="handrail.tools", name=tool_id))


def describe(tool: AnyTool) -> str:
    """The description of the tool for the model, with `{limit}` where a limit in force goes."""
    if tool.description:
        return tool.description
    if tool.id in list_ids():
        return (HERE / f"{tool.id}.md").read_text(encoding="utf-8").strip("\n")
    module = import_module(tool.run.__module__)
    return Path(str(module.__file__)).with_suffix(".md").read_text(encoding="utf-8").strip("\n")
