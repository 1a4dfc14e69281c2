"""An adapter for judging edits: one JSON case a line in, one JSON answer a line out.

Case: `{id, path, content, old, new, replace_all}`. Answer: `{id, status: "applied" | "refused", content | error}`.
Each case is a real file in a throwaway workspace, read and edited through a session of the dialect that the command
line names.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from handrail import Session, Settings


def judge(case: dict[str, Any], root: Path, dialect: str) -> dict[str, Any]:
    name = f"{case['id']}-{Path(case['path']).name}"
    path = root / name
    path.write_bytes(case["content"].encode("utf-8"))
    with Session(root, dialect=dialect, settings=Settings(durable=False)) as session:
        session.call("Read", {"file_path": str(path), "limit": 1})
        edit = {"old_string": case["old"], "new_string": case["new"], "replace_all": case["replace_all"]}
        result = session.call("Edit", {"file_path": str(path), **edit})
    content = path.read_bytes().decode("utf-8")
    path.unlink()
    if result.error:
        return {"id": case["id"], "status": "refused", "error": result.text}
    return {"id": case["id"], "status": "applied", "content": content}


def main() -> None:
    dialect = sys.argv[1] if len(sys.argv) > 1 else "native"
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            print(json.dumps(judge(json.loads(line), Path(folder), dialect)), flush=True)


if __name__ == "__main__":
    main()
