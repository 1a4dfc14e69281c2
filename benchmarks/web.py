"""The browser page over a large journal: the time that the server takes, and the bytes that it sends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.journal import fill
from benchmarks.measure import Line, Scale, cpu_time, seconds
from handrail import Settings

MOST, MOST_BYTES = 0.3, 300 << 10


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    try:
        from starlette.testclient import TestClient

        from handrail.web.pages import make_app
        from handrail.web.site import Site
    except ImportError:
        yield Line("The browser page: left out, the extra `web` is not installed", "-")
        return
    rows = min(100_000, scale.lines // 10)
    path = str(folder / "web" / "journal.db")
    fill(path, rows, "/project")
    with TestClient(make_app(Site(path, Settings(state=str(folder / "state"))))) as browser:
        for what, address in (
            ("the first page", "/"),
            ("the page again", "/"),
            ("the page of one tool", "/?tool=Read"),
            ("a page in its middle", f"/?before={rows // 2}"),
            ("the statistics", "/statistics"),
        ):
            started, begun = time.perf_counter(), cpu_time()
            answer = browser.get(address)
            taken, cpu = time.perf_counter() - started, cpu_time() - begun
            assert answer.status_code == 200
            size = len(answer.content)
            has_target = what == "the first page"
            target = f"at most {seconds(MOST)} and {MOST_BYTES >> 10} KB" if has_target else ""
            text = f"{seconds(taken)} (CPU {seconds(cpu)}), {size / 1024:.0f} KB"
            met = taken <= MOST and size <= MOST_BYTES if has_target else None
            yield Line(f"Browser page over {rows:,} calls: {what}", text, "", "", target, met)
