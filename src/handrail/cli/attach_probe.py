"""Try an attached agent: it runs a harmless command for a scripted model, and the journal tells how."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import TYPE_CHECKING

from handrail.cli.common import find_state
from handrail.frozen import frozen
from handrail.journal import JournalFailed
from handrail.journal.queries import JournalReader
from handrail.journal.store import get_default_path, has_journal
from handrail.json_types import JsonMapping
from handrail.text.display import escape
from handrail_demo.scripted_server import Line, ScriptedServer

if TYPE_CHECKING:
    from handrail_demo.scripted_server import Script, Seen

_SECONDS = 90
_COMMAND = "echo handrail > probe.txt"
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "npm_config_registry")


@frozen
class ProbeResult:
    """What became of the command."""

    works: bool | None
    """None if it could not be tried."""
    detail: str
    fix: str = ""


def probe(program: str | None, how: JsonMapping, *, wraps: bool = True) -> ProbeResult:
    """Run the installed agent once, or twice if its hooks need trust; ``how`` is its `probe` in `clients.toml`.

    ``wraps``: whether its commands are expected to run in drafts.
    """
    trust = how.get("trust", "")
    if not program:
        return ProbeResult(None, "not run, because it is not on the search path", trust)
    result = _run(program, how, how["words"], wraps)
    if result.works or not trust or not _run(program, how, [*how["trusting"], *how["words"]], wraps).works:
        return result
    return ProbeResult(False, "it runs Handrail's hooks only after you trust them", trust)


def _run(program: str, how: JsonMapping, words: list[str], wraps: bool) -> ProbeResult:
    with tempfile.TemporaryDirectory(prefix="handrail-probe-") as folder, ScriptedServer(_use_shell(how)) as model:
        project, settings = os.path.join(os.path.realpath(folder), "project"), os.path.join(folder, "settings.json")
        os.mkdir(project)
        with open(settings, "w", encoding="utf-8") as file:
            file.write(how.get("settings", ""))
        given = [word.replace("{model}", model.url) for word in words]
        # The model is no proxy, so an agent reaches nothing else meanwhile, and no account is used.
        offline = dict.fromkeys(_PROXIES, model.url) | {"NO_PROXY": "127.0.0.1", "npm_config_fetch_retries": "0"}
        variables = {
            key: value.replace("{model}", model.url).replace("{settings}", settings)
            for key, value in how["environment"].items()
        }
        try:
            done = subprocess.run(  # noqa: S603 - the agent that the person attaches
                [program, *given],
                cwd=project,
                env={**os.environ, **offline, **variables, "PWD": project},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return ProbeResult(False, f"it did not end within {_SECONDS} seconds")
        except OSError as error:
            return ProbeResult(False, f"it cannot be started: {error.strerror}")
        if not os.path.exists(os.path.join(project, "probe.txt")):
            last = done.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2]
            return ProbeResult(False, f"it did not run the command: {escape(last)[:200]}")
        return _read_journal(project, wraps)


def _use_shell(how: JsonMapping) -> Script:
    """A model that runs the command once, with the shell tool it is offered."""
    tools = [(tool, {**arguments, key: _COMMAND}) for tool, (key, arguments) in how["tools"].items()]

    def answer(seen: Seen) -> Line:
        offered = json.dumps(seen.body.get("tools", ()))
        uses = [use for use in tools if f'"{use[0]}"' in offered][:1]
        if uses:
            tools.clear()
        return Line("" if uses else "Done.", uses)

    return answer


def _read_journal(project: str, wraps: bool) -> ProbeResult:
    unused = ProbeResult(False, "its command ran without Handrail: this version does not use the hooks")
    path = get_default_path(find_state())
    if not has_journal(path):
        return unused
    try:
        with JournalReader(path) as reader:
            call = next((one for one in reader.iterate_calls(project=project) if one.tool == "Bash"), None)
            if call is None:
                return unused
            if reader.read_files(call.seq):
                return ProbeResult(True, "its commands run in drafts, and can be undone")
            if not wraps:
                return ProbeResult(True, "its edits can be undone; its commands are only recorded")
            why = escape(call.output or "no draft").rstrip(".")
            return ProbeResult(False, f"its commands are recorded, but cannot be undone: {why}")
    except JournalFailed as error:
        return ProbeResult(False, escape(error.why))
