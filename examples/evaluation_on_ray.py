"""An evaluation over 100 workspaces with Ray: one edit, sent to 100 projects that differ, and counted.

`python evaluation_on_ray.py [NUMBER]` needs the extra `fleet` (`pip install '.[fleet]'` in a checkout). Each workspace
is a draft of its folder where the kernel allows drafts, so nothing is copied.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from handrail import AnySession, Fleet, FleetWorkspace

KINDS = {
    "as sent": "if ready:\n    start()\n",
    "indented": "def main():\n    if ready:\n        start()\n",
    "twice": "if ready:\n    start()\nelse:\n    stop()\nif ready:\n    start()\n",
    "gone": "start()\n",
}
EDIT = {"old_string": "if ready:\n    start()", "new_string": "if ready:\n    log()\n    start()"}
EXPECTED = {"as sent": "ok", "indented": "ok", "twice": "many_matches", "gone": "no_match"}


def work(session: AnySession, workspace: FleetWorkspace) -> tuple[str, str]:
    """What one workspace does, in a process of Ray."""
    session.call("Read", {"file_path": "app.py"})
    result = session.call("Edit", {"file_path": "app.py", **EDIT})
    return workspace.data["kind"], result.error.code if result.error else "ok"


def main(number: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        workspaces = []
        for n in range(number):
            kind = list(KINDS)[n % len(KINDS)]
            source = Path(folder, kind.replace(" ", "_"))
            source.mkdir(exist_ok=True)
            (source / "app.py").write_text(KINDS[kind], encoding="utf-8")
            workspaces.append(FleetWorkspace(f"w{n}", folder=str(source), data={"kind": kind}))
        with Fleet() as fleet:
            outcomes = Counter(result.value or ("failed", result.error) for result in fleet.map(work, workspaces))
    for (kind, outcome), count in sorted(outcomes.items()):
        print(f"{count:4} {kind}: {outcome}, {'as expected' if EXPECTED.get(kind) == outcome else 'NOT EXPECTED'}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 100)
