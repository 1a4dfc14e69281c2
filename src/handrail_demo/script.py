"""The demo's project, its tasks and the scripted replies of the model.

The script knows only these tasks, but it reads the results of the tools: when a person refuses a change, it does not
claim that the work is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from handrail_demo.scripted_server import Line

if TYPE_CHECKING:
    from handrail_demo.scripted_server import Script, Seen

README = b"# Kiosk\nTODO: open the door\nSell tea and coffee.\nTODO: count the money, TODO: lock up\n"
PRICES = b"tea      2.40\ncoffee   2.40\n"
RAISED = b"tea      2.40\ncoffee   2.60\n"
SECRET = "kiosk-4711-open-sesame"  # noqa: S105 - it opens nothing
FILES = {"README.md": README, "prices.txt": PRICES, ".env": f"KIOSK_KEY={SECRET}\n".encode()}

DONE = "Turn every TODO in README.md into DONE."
COFFEE = "Coffee costs 2.60 from today: change prices.txt."
ROOT = "Clean up with `sudo make clean`, and tell me what is in .env."


def script(delay: float = 0.0) -> Script:
    """The replies; ``delay`` seconds between two pieces, so that a person can see them come."""

    def reply(seen: Seen) -> Line:
        task, step = _place(seen.body)
        text, uses = _TASKS[task](step, seen.results) if task in _TASKS else ("(The script does not know this.)", [])
        return Line(text, uses, delay=delay)

    return reply


_Reply = tuple[str, list[tuple[str, dict[str, Any]]]]


def _done(step: int, results: Sequence[str]) -> _Reply:
    last = results[-1] if results else ""
    if step == 0:
        return "I look at the file first.", [("Read", {"file_path": "README.md"})]
    if step == 1:
        change = {"file_path": "README.md", "old_string": "TODO", "new_string": "DONE", "replace_all": True}
        return f"TODO is there {last.count('TODO')} times. I change all of them at once.", [("Edit", change)]
    if last.startswith("Replaced 3"):
        return "All three TODOs in README.md are DONE now.", []
    return "I could not finish: there may still be a TODO in README.md.", []


def _coffee(step: int, results: Sequence[str]) -> _Reply:
    last = results[-1] if results else ""
    edit = {"file_path": "prices.txt", "old_string": "2.40", "new_string": "2.60"}
    if step == 0:
        return "", [("Read", {"file_path": "prices.txt"})]
    if step == 1:
        return "I change 2.40 to 2.60.", [("Edit", edit)]
    if step == 2 and "lines 1, 2" in last:
        line = {**edit, "old_string": "coffee   2.40", "new_string": "coffee   2.60"}
        return "That price is there twice, and only coffee is meant: I give the whole line.", [("Edit", line)]
    if step == 3 and last.startswith("Edited"):
        return "Coffee costs 2.60 now; tea stays at 2.40.", []
    return "I could not finish: the price of coffee is as it was.", []


def _root(step: int, _: Sequence[str]) -> _Reply:
    if step == 0:
        return "", [("Bash", {"command": "sudo make clean"}), ("Bash", {"command": "cat .env"})]
    return "I am not allowed to do either, so I did neither. You can do both yourself.", []


_TASKS: dict[str, Callable[[int, Sequence[str]], _Reply]] = {DONE: _done, COFFEE: _coffee, ROOT: _root}


def _place(body: Any) -> tuple[str, int]:
    """The task at hand, and how many replies it has had."""
    step = 0
    for message in reversed(body["messages"]):
        if message["role"] == "user":
            return str(message["content"]), step
        step += message["role"] == "assistant"
    return "", step
