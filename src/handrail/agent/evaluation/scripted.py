"""The scripted model of the evaluation: it plays the steps of a task with whatever tools it is offered.

A step names an action (read, search, find, edit, write, patch, run), not a tool. `actions.toml` lists the names of
tools and arguments for each action. Where no tool fits, edits and writes become a patch; reads, searches and finds
become a shell command. So the same script runs in every dialect, and in agents that are not ours. If the file that a
step watches is unchanged, its `retry` step comes next, as a model retries after an error: a forgiving tool needs fewer
turns.
"""

from __future__ import annotations

import difflib
import shlex
import threading
import tomllib
from collections import deque
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from handrail.agent.evaluation.tasks import EvalTask
from handrail.frozen import frozen
from handrail.json_types import JsonMapping
from handrail_demo.scripted_server import Line, Seen

Step = JsonMapping
Call = tuple[str, Mapping[str, object] | str]
_FILLER = "A step of the task"


@cache
def _read_names() -> Mapping[str, JsonMapping]:
    with Path(__file__).with_name("actions.toml").open("rb") as file:
        return tomllib.load(file)


@frozen
class Offered:
    """A tool as the request describes it."""

    name: str
    schema: JsonMapping | None
    """None for a tool that takes a text."""

    def build(self, action: str, values: JsonMapping, folder: Path) -> Call | None:
        """The call with these values; None if the tool has no argument for one of them."""
        if self.schema is None:
            return self.name, str(next(iter(values.values())))
        properties = self.schema.get("properties", {})
        arguments: dict[str, object] = dict(_read_names()[action].get("fixed", {}).get(self.name, {}))
        for key, value in values.items():
            names = _read_names()[action][key]
            name = next((one for one in names if one in properties), None)
            if name is None:
                return None
            about = str(properties[name].get("description")).casefold()
            if key in ("path", "where") and "absolute" in about and "relative" not in about:
                value = str(folder / value)
            is_list = properties[name].get("type") == "array"
            arguments[name] = ["bash", "-lc", value] if is_list else value
        for name in self.schema.get("required", ()):
            arguments.setdefault(name, _FILLER)
        return self.name, arguments


class ScriptedModel:
    """Plays a task; `Script` of a scripted server."""

    def __init__(self, task: EvalTask, folder: Path) -> None:
        self._folder = folder
        self._steps = deque(task.steps)
        self._retry: tuple[Step, Path, bytes | None] | None = None
        """The retry step, the file to watch, and its bytes before the call (None if there was no file)."""
        self._lock = threading.Lock()

    def __call__(self, seen: Seen) -> Line:
        tools = _list_offered(seen.body)
        if not tools:  # a request for a title, say
            return Line("A task")
        with self._lock:
            return self._next(tools)

    def _next(self, tools: Mapping[str, Offered]) -> Line:
        if self._retry and _read(self._retry[1]) == self._retry[2]:
            self._steps.appendleft(self._retry[0])
        self._retry = None
        while self._steps:
            step = self._steps.popleft()
            call = self._call(step, tools)
            if call:
                if "retry" in step:
                    path = self._folder / step.get("watch", step.get("edit"))
                    self._retry = {**step["retry"]}, path, _read(path)
                return Line("", [call])
            if "instead" not in step:
                return Line(f"I have no tool for this: {step}")
            self._steps.extendleft(reversed(step["instead"]))
        return Line("Done.")

    def _call(self, step: Step, tools: Mapping[str, Offered]) -> Call | None:
        """The call for a step, or the nearest that the tools can do."""
        action = next(name for name in _read_names() if name in step)
        values = {_read_names()[action]["main"]: step[action]}
        values |= {key: step[key] for key in ("old", "new", "all", "text", "offset", "limit", "where") if key in step}
        for name in _read_names()[action]["tools"]:
            if name in tools and (call := tools[name].build(action, values, self._folder)):
                return call
        if action in ("edit", "write"):
            return self._call({"patch": self._write_patch(action, step)}, tools)
        if action in ("read", "search", "find"):
            return self._call({"run": _write_command(action, step)}, tools)
        return None

    def _write_patch(self, action: str, step: Step) -> str:
        """An edit as a patch with context lines; without them if its old text is missing or not unique."""
        name = step[action]
        if action == "write":
            rows = [f"*** Add File: {name}", *("+" + line for line in step["text"].splitlines())]
        else:
            text = (self._folder / name).read_text(encoding="utf-8", errors="surrogateescape")
            after = text.replace(step["old"], step["new"])
            rows = [f"*** Update File: {name}"]
            if after == text or (text.count(step["old"]) > 1 and not step.get("all")):
                rows += ["@@", *("-" + line for line in step["old"].splitlines())]
                rows += ["+" + line for line in step["new"].splitlines()]
                after = text
            for line in list(difflib.unified_diff(text.splitlines(), after.splitlines(), n=3, lineterm=""))[2:]:
                rows.append("@@" if line.startswith("@@") else line)
        return "\n".join(["*** Begin Patch", *rows, "*** End Patch", ""])


def _write_command(action: str, step: Step) -> str:
    if action == "search":
        return f"grep -rn -e {shlex.quote(step['search'])} {shlex.quote(step.get('where', '.'))}"
    if action == "find":
        return f"find . -name {shlex.quote(step['find'].rpartition('/')[2])}"
    first = step.get("offset", 1)
    return f"sed -n '{first},{first + step.get('limit', 200) - 1}p' {shlex.quote(step['read'])}"


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _list_offered(body: JsonMapping) -> dict[str, Offered]:
    """The tools of a request in any protocol."""
    offered = {}
    for tool in body.get("tools", ()):
        one = tool.get("function", tool)
        schema = one.get("parameters") or one.get("input_schema")
        if "name" in one and (schema or one.get("type") == "custom"):
            offered[one["name"]] = Offered(one["name"], schema)
    return offered
