"""Handrail in process: answers the requests of the benchmark, one JSON object a line."""

from __future__ import annotations

import json
import sys

from handrail import Session, Settings


def main(root: str) -> None:
    with Session(root, settings=Settings(state=f"{root}.state")) as session:
        for line in sys.stdin:
            ask = json.loads(line)
            if ask["do"] == "edit":
                session.call("Read", {"file_path": ask["path"], "limit": 1})
                texts = {"old_string": ask["old"], "new_string": ask["new"]}
                result = session.call("Edit", {"file_path": ask["path"], **texts})
            elif ask["do"] == "read":
                result = session.call("Read", {"file_path": ask["path"], "offset": ask["line"], "limit": 100})
            else:
                result = session.call("Grep", {"pattern": ask["pattern"], "output_mode": "content"})
            print(json.dumps({"ok": result.status in ("ok", "partial"), "text": result.text}), flush=True)


main(sys.argv[1])
