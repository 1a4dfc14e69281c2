"""The conformance suite of the protocol against the HTTP door: all that it requires of a server, in both generations.

Not in the default run: `make test-conformance` installs the suite into a temporary folder and names it in
HANDRAIL_CONFORMANCE. A check may fail only for want of a feature that this server does not have, or of a tool whose
answer is a text of the suite's own; `http_conformance.py` has the tools that ours can stand for.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.command import TIMEOUT
from tests.mcp.http_conformance import ASKED, FAILS
from tests.mcp.http_server import call, envelope

FOLDER = os.environ.get("HANDRAIL_CONFORMANCE", "")
VERSIONS = ["2025-11-25", "2026-07-28"]
WITHOUT = {
    "prompts-": "there are no prompts",
    "resources-": "there are no resources",
    "sep-2164-resource-not-found": "there are no resources",
    "caching": "of its five lists only that of the tools is here",
    "completion-complete": "there is nothing to complete",
    "logging-set-level": "the protocol's log messages are not used",
    "tools-call-with-logging": "the protocol's log messages are not used",
    "server-sse-polling": "a stream cannot be taken up again; this is recommended, not required",
    "tasks-": "an extension of the protocol that is not here",
    "input-required-result-multi-round": "needs a tool that asks twice",
    "input-required-result-missing-input-response": "needs a tool that asks for a text",
    "input-required-result-non-tool-request": "there are no prompts that could ask",
}
"""By the beginning of the scenario's name: why it cannot pass as a whole."""
NO_TOOL = re.compile(r"unknown tool '(\w+)'|Tool '(\w+)' not found|Not testable: server does not list the .*?'(\w+)'")
NO_HEADERS = "server exposes no tool with x-mcp-header annotations"
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="the conformance suite is not installed here; `make test-conformance` does that (npm, network)"
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("project")
    environment = {**os.environ, "HANDRAIL_STATE": str(tmp_path_factory.mktemp("state"))}
    command = [sys.executable, "-m", "tests.mcp.http_conformance", str(root)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr
    try:
        url = next(line for line in process.stderr if "serving" in line).rsplit(" ", 1)[1].strip()
        # The suite waits 600 ms for the first answer of a stream. The first question imports what asking needs.
        for tool in (FAILS, ASKED[0]):
            body = call(tool)
            body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {}}
            headers = {name.replace("_", "-"): value for name, value in envelope(tool).items()}
            accepted = {"Accept": "application/json, text/event-stream"}
            assert httpx2.post(url, json=body, headers={**headers, **accepted}, timeout=TIMEOUT).status_code == 200
        yield url
    finally:
        process.terminate()
        assert process.wait(timeout=TIMEOUT) == 0
        process.stderr.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_conformance_suite_passes(url: str, tmp_path: Path, version: str) -> None:
    checks = _run_suite(url, tmp_path, version)
    assert len(checks) >= 30, checks.keys()
    left = {scenario: why for scenario in checks if (why := _explain(scenario))}
    unmet = {
        (scenario, check["id"]): check.get("errorMessage")
        for scenario, listed in checks.items()
        for check in listed
        if check["status"] in ("FAILURE", "WARNING") and scenario not in left and not _lacks_tool(check)
    }
    assert not unmet
    for scenario, listed in checks.items():
        passed = sum(check["status"] == "SUCCESS" for check in listed)
        assert passed or scenario in left, scenario
        assert scenario not in left or any(check["status"] != "SUCCESS" for check in listed), f"{scenario} passes now"


def _run_suite(url: str, folder: Path, version: str) -> dict[str, list[dict[str, Any]]]:
    """The checks of each scenario."""
    modules = Path(FOLDER) / "node_modules"
    own = modules / "node" / "bin" / "node"
    command = [str(own) if own.exists() else "node", str(modules / ".bin" / "conformance"), "server", "--url", url]
    command += ["--requirements", version, "--output-dir", str(folder)]
    subprocess.run(command, capture_output=True, check=False, timeout=TIMEOUT)
    names = {
        path: re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\dZ-]+$", "", path.parent.name)
        for path in folder.rglob("checks.json")
    }
    return {name: json.loads(path.read_text(encoding="utf-8")) for path, name in names.items()}


def _explain(scenario: str) -> str:
    return next((why for start, why in WITHOUT.items() if scenario.startswith(start)), "")


def _lacks_tool(check: dict[str, Any]) -> bool:
    """Whether a check needs a tool of the suite's own that none of ours can stand for."""
    message = str(check.get("errorMessage"))
    wanted = {name for names in NO_TOOL.findall(message) for name in names if name}
    return NO_HEADERS in message or bool(wanted and wanted.isdisjoint([FAILS, *ASKED]))
