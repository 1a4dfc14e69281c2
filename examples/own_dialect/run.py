"""A dialect of your own: other names, schemas, limits and sentences for the same tools.

The folder of this file is the dialect. `handrail dialects check DIRECTORY` reports mistakes with file and line, and
`handrail eval --dialect DIRECTORY` says how well models do with it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from handrail import Session

HERE = str(Path(__file__).parent)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "menu.txt").write_text("tea 2.40\ncoffee 2.40\n", encoding="utf-8")
        with Session(folder, dialect=HERE) as session:
            print("tools:", *(spec.name for spec in session.specs()))
            print("view takes:", *session.specs()[0].schema["properties"])
            print(session.call("view", {"file": "menu.txt", "lines": 1}).text)
            print(session.call("change", {"file": "menu.txt", "old": "2.40", "new": "2.60"}).text)
            print(session.call("change", {"file": "menu.txt", "old": "coffee 2.40", "new": "coffee 2.60"}).text)
