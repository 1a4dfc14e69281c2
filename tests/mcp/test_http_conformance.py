"""The conformance suite of the protocol against the HTTP door: every scenario that a server with only tools can pass.

Not in the default run: `make test-conformance` installs the suite into a temporary folder and names it in
HANDRAIL_CONFORMANCE. The other scenarios need what is not here: prompts and resources, sampling, a tool whose answer or
schema is a text of the suite's own, or streams that can be taken up again after a disconnect.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import TIMEOUT

FOLDER = os.environ.get("HANDRAIL_CONFORMANCE", "")
SCENARIOS = {
    "2025-11-25": [
        "server-initialize",
        "server-session-lifecycle",
        "ping",
        "tools-list",
        "tools-call-error",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
    ],
    "2026-07-28": [
        "server-stateless",
        "tools-list",
        "tools-call-error",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "http-header-validation",
        "input-required-result-unsupported-methods",
        "input-required-result-request-state",
        "input-required-result-tampered-state",
    ],
}
# No call of ours fails for want of a capability: where nobody can be asked, a refusal says what would allow it.
UNTESTABLE = re.compile(r"Error: Not testable: server does not list the diagnostic tool 'test_missing_capability'")
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
        yield next(line for line in process.stderr if "serving" in line).rsplit(" ", 1)[1].strip()
    finally:
        process.terminate()
        assert process.wait(timeout=TIMEOUT) == 0
        process.stderr.close()


@pytest.mark.parametrize(
    ("version", "scenario"), [(version, one) for version, names in SCENARIOS.items() for one in names]
)
def test_a_scenario_of_the_conformance_suite_passes(url: str, version: str, scenario: str) -> None:
    modules = Path(FOLDER) / "node_modules"
    own = modules / "node" / "bin" / "node"
    command = [str(own) if own.exists() else "node", str(modules / ".bin" / "conformance"), "server", "--url", url]
    command += ["--scenario", scenario, "--spec-version", version]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    output = done.stdout + done.stderr
    counted = re.search(r"Passed: (\d+)/(\d+), (\d+) failed, (\d+) warnings", output)
    assert counted, output
    passed, all_of_them, failed, warnings = map(int, counted.groups())
    assert passed > 0 and passed + failed == all_of_them and warnings == 0, output
    assert failed == len(UNTESTABLE.findall(output)), output
