"""The parts that the pages share: the journal, the settings, the templates and the open questions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from handrail.files.locks import state_directory
from handrail.journal import JournalFailed
from handrail.journal.postgres_reader import open_reader
from handrail.journal.queries import JournalReader
from handrail.journal.store import get_default_path
from handrail.settings import Settings
from handrail.settings.journal_address import is_database_url
from handrail.text.display import escape
from handrail.version import __version__
from handrail.web.ansi import render_ansi
from handrail.web.questions import Attendance, OpenQuestions, PageQuestion
from handrail.web.sentences import describe_call, describe_change, shorten
from handrail.web.text import show_age, show_day, show_duration, show_iso, show_text, show_time
from handrail.workspace import Root


@dataclass(slots=True)
class Site:
    """What the pages show, and how."""

    journal: str
    """Path of the journal, or the URL of a shared one, which is only read."""
    settings: Settings
    roots: Sequence[Root] = ()
    """More directories of the user's configuration, in which undo may restore files."""
    questions: OpenQuestions | None = None
    """None: questions are not received here."""
    attendance: Attendance = field(default_factory=Attendance)
    """Who has a page open: nobody is asked otherwise."""
    closing: threading.Event = field(default_factory=threading.Event)
    """Set when the server is to end: streams end with it."""
    _templates: Environment = field(init=False)

    def __post_init__(self) -> None:
        self._templates = Environment(
            loader=PackageLoader("handrail.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        filters: dict[str, Callable[..., Any]] = {
            "name": escape,
            "text": show_text,
            "time": show_time,
            "ago": show_age,
            "iso": show_iso,
            "day": show_day,
            "shorten": shorten,
            "sentence": describe_call,
            "how": describe_change,
            "duration": show_duration,
            "ansi": render_ansi,
        }
        self._templates.filters.update(filters)
        self._templates.globals.update(version=__version__)
        for template in self._templates.list_templates():  # compiled now, so that the first page does not wait for it
            self._templates.get_template(template)

    def render(self, template: str, **values: object) -> str:
        """A page, or a part of one."""
        return self._templates.get_template(template).render(open_questions=len(self.list_questions()), **values)

    def page(self, template: str, status: int = 200, **values: object) -> HTMLResponse:
        """A page as an answer."""
        return HTMLResponse(self.render(template, **values).encode("utf-8", "replace"), status)

    def message(self, status: int, title: str, text: str) -> HTMLResponse:
        """A page with a sentence."""
        return self.page("message.html", status, title=title, text=text)

    def list_questions(self) -> list[PageQuestion]:
        """The questions that wait for an answer."""
        return self.questions.list_open() if self.questions else []

    @property
    def is_shared(self) -> bool:
        return is_database_url(self.journal)

    @property
    def own_journal(self) -> str:
        """The journal of this machine, in which changes are recorded."""
        return get_default_path(state_directory(self.settings.state)) if self.is_shared else self.journal

    @contextmanager
    def reader(self) -> Iterator[JournalReader | None]:
        """The journal; None if there is none yet. Raises `JournalFailed` if it cannot be read."""
        try:
            reader = open_reader(self.journal)
        except JournalFailed as error:
            if error.why != "there is no journal yet":
                raise
            yield None
            return
        with reader:
            yield reader
