"""A program with a session of its own: `python -m tests.attach.library_client STATE PROJECT`, a call on each line."""

from __future__ import annotations

import json
import sys

from handrail import Session, Settings


def main() -> None:
    state, project = sys.argv[1:]
    with Session(project, mode="full", settings=Settings(state=state)) as session:
        for line in sys.stdin:
            result = session.call(*json.loads(line)["call"])
            kept = result.ok and result.data.get("kept") is not False
            print(json.dumps({"kept": kept, "text": result.text}), flush=True)


if __name__ == "__main__":
    main()
