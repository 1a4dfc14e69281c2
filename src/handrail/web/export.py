"""A session as one HTML file that needs nothing else: for a report, an issue, an archive. Secrets are masked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files

from markupsafe import Markup

from handrail.journal.queries import CallRow
from handrail.secrets.masking import Mask
from handrail.web.diffs import parse_diff
from handrail.web.site import Site

MOST_CALLS = 5_000


def export_session(site: Site, session: str) -> Iterator[str]:
    """The file, part by part: a call at a time is in memory."""
    # Calls are masked when they are recorded. This covers what is not masked there, such as notes.
    mask = Mask(os.urandom(16))
    style = Markup((files("handrail.web") / "static" / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - ours
    yield site.render("export_head.html", session=session, style=style)
    with site.reader() as reader:
        for row in reader.iterate_calls(limit=MOST_CALLS, session=session) if reader else ():
            hidden = _mask_call(row, mask)
            arguments = json.dumps(hidden.arguments, indent=2, ensure_ascii=False)
            yield site.render("export_call.html", row=hidden, arguments=arguments, views=parse_diff(hidden.diff or ""))
    yield "</main>\n</body>\n</html>\n"


def _mask_call(row: CallRow, mask: Mask) -> CallRow:
    def hide(text: str | None) -> str | None:
        return mask.text(text) if text else text

    return replace(
        row,
        arguments=mask.value(row.arguments),
        accesses=mask.value(row.accesses),
        why=hide(row.why),
        message=hide(row.message),
        diff=hide(row.diff),
        output=hide(row.output),
        notes=mask.value(row.notes),
        traceback=hide(row.traceback),
    )
