"""The framework's own tests of a sandbox, from the package langchain-tests, against the backend.

They are skipped where that package is not installed. Its version 1.1.9 asks for two things that deepagents 0.7 itself
defines otherwise: paths of `glob` relative to the directory that is searched, and a refusal to overwrite a file.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail import Answer
from handrail.integrations.deepagents import HandrailSandbox, open_session

suite = pytest.importorskip(
    "langchain_tests.integration_tests.sandboxes", reason="langchain-tests is not installed: the suite was not run"
)
TheirTests: Any = suite.SandboxIntegrationTests
OTHERWISE = {
    "test_write_existing_file_fails": "deepagents 0.7 defines that write overwrites; Handrail asks for a read first",
    "test_glob_with_directories": "Glob finds files only, as that of deepagents' own LocalShellBackend",
}


def _call(test: Callable[..., Any]) -> Callable[..., None]:
    """The same test as a function of this module, and a coroutine as an ordinary one."""

    @functools.wraps(test)
    def run(*words: Any, **named: Any) -> None:
        outcome = test(*words, **named)
        if inspect.isawaitable(outcome):
            asyncio.run(_wait_for(outcome))

    return run


async def _wait_for(outcome: Awaitable[None]) -> None:
    await outcome


@pytest.mark.filterwarnings("ignore::pytest.PytestRemovedIn10Warning")  # of the suite's own fixtures
class TestSandbox(TheirTests):  # type: ignore[misc]
    root = Path()

    @property
    def sandbox_root_dir(self) -> str:
        return str(self.root / "ops")

    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandrailSandbox]:
        cls.root = tmp_path_factory.mktemp("sandbox")
        with open_session(cls.root, mode="full", approve=lambda _: Answer(yes=True)) as session:
            yield HandrailSandbox(session, relative_globs=True)


for _name, _test in inspect.getmembers(suite.SandboxIntegrationTests, inspect.isfunction):
    if _name in OTHERWISE:
        setattr(TestSandbox, _name, pytest.mark.xfail(reason=OTHERWISE[_name], strict=True)(_call(_test)))
    elif inspect.iscoroutinefunction(_test):
        setattr(suite.SandboxIntegrationTests, _name, _call(_test))
