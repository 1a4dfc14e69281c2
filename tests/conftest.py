"""Fixtures for all tests: real files, a private state directory, and faults that are not swallowed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from handrail import Session, Settings
from handrail.policy import AllowAll

# The same examples in every run, so that a change and not chance decides; HANDRAIL_RANDOM=1 looks for new ones.
hypothesis.settings.register_profile("same", derandomize=True)
if not os.environ.get("HANDRAIL_RANDOM"):
    hypothesis.settings.load_profile("same")


@pytest.fixture(autouse=True)
def _private_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """State, configuration and rules of the tests stay with the tests, also in the processes they start."""
    monkeypatch.setenv("HANDRAIL_STATE", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    monkeypatch.delenv("HANDRAIL_CONFIG", raising=False)


@pytest.fixture
def make_session(tmp_path: Path) -> Iterator[Callable[..., Session]]:
    """`make_session(root=..., dialect=..., durable=False, ...)`: a session on a fresh folder that raises on bugs.

    Tests of tools are not about rules: everything is allowed, unless the test gives a mode, rules or a policy.
    """
    made: list[Session] = []

    def make(root: Path | None = None, dialect: str = "native", **options: Any) -> Session:
        names = Settings.__dataclass_fields__
        settings = {name: options.pop(name) for name in list(options) if name in names}
        if not options.keys() & {"policy", "mode", "rules"}:
            options["policy"] = AllowAll()
        session = Session(
            root or tmp_path, dialect=dialect, settings=Settings(**{"raise_bugs": True, **settings}), **options
        )
        made.append(session)
        return session

    yield make
    for session in made:
        session.close()
