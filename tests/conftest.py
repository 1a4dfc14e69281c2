"""Fixtures for all tests: real files, a private state directory, and faults that are not swallowed."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from handrail import Session, Settings, Setup, programs
from handrail.policy import AllowAll
from tests import sizes

# The same examples in every run, so that a change and not chance decides; HANDRAIL_RANDOM=1 looks for new ones.
# No deadlines: a busy machine is no failure.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None, max_examples=sizes.pick(40, 100))
hypothesis.settings.register_profile("random", deadline=None)
hypothesis.settings.load_profile("random" if os.environ.get("HANDRAIL_RANDOM") else "same")

# A few thousand processes start our modules: with this variable each of them would compile all of them again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Under `nohup`, or as a job in the background, signals are ignored, and every process that a test starts would inherit
# that. A handler that does nothing ignores them here too, and gives those processes the default.
with contextlib.suppress(ValueError):  # not the main thread
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())

# Commands of the tests name files without quotes, and the path of a socket holds 107 bytes: where the temporary
# directory has an odd or a long name, a plain one is used. `test_odd_places.py` tries odd names on purpose.
if not re.fullmatch(r"[\w./-]{1,20}", tempfile.gettempdir(), re.ASCII):
    for place in ("/tmp", "/var/tmp"):
        if os.access(place, os.W_OK | os.X_OK):
            os.environ["TMPDIR"] = tempfile.tempdir = place
            break


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked `long`, except in `make test-long`."""
    if not sizes.LONG:
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


_numbers = itertools.count()


@pytest.fixture(autouse=True)
def forget_distrusted() -> Iterator[None]:
    """A directory that one test worked in may hold the programs of the next."""
    before = dict(programs._distrusted)
    yield
    programs._distrusted.clear()
    programs._distrusted.update(before)


@pytest.fixture(autouse=True)
def _private_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """State, configuration and rules of the tests stay with the tests, also in the processes they start.

    They lie apart from the folders of the tests: to hide a directory, Landlock needs a rule for each of its neighbours.
    """
    number = next(_numbers)
    private = tmp_path_factory.getbasetemp() / "private" / f"{number // 100}" / f"{number}"
    for variable, name in (("HANDRAIL_STATE", "state"), ("XDG_CONFIG_HOME", "config")):
        (private / name).mkdir(0o700, parents=True)
        monkeypatch.setenv(variable, str(private / name))
    monkeypatch.delenv("HANDRAIL_CONFIG", raising=False)


@pytest.fixture
def without_drafts(_private_state: None) -> None:
    """Commands work on the workspace itself: for tests that look at files of a command while it runs."""
    for variable in ("XDG_CONFIG_HOME", "HANDRAIL_STATE"):  # the second one for `tests.command.surroundings`
        path = Path(os.environ[variable], "handrail", "config.toml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[settings]\ndrafts = false\n", encoding="utf-8")


@pytest.fixture
def make_session(tmp_path: Path) -> Iterator[Callable[..., Session]]:
    """`make_session(root=..., dialect=..., durable=False, ...)`: a session on a fresh folder that raises on bugs.

    Tests of tools are not about rules: everything is allowed, unless the test gives a mode, rules or a policy.
    """
    collected: list[Session] = []

    def make(root: Path | None = None, dialect: str = "native", **options: Any) -> Session:
        names = Settings.__dataclass_fields__.keys() - {"journal"}  # the session has an option of that name
        settings = {name: options.pop(name) for name in list(options) if name in names}
        if not options.keys() & {"policy", "mode"} and not (options.get("setup") or Setup()).rules:
            options["policy"] = AllowAll()
        session = Session(
            root or tmp_path, dialect=dialect, settings=Settings(**{"raise_bugs": True, **settings}), **options
        )
        collected.append(session)
        return session

    yield make
    for session in collected:
        session.close()
