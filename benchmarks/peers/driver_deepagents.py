"""The file system backend of deepagents: answers the requests of the benchmark, one JSON object a line."""

from __future__ import annotations

import json
import sys

from deepagents.backends.filesystem import FilesystemBackend


def main(root: str) -> None:
    backend = FilesystemBackend(root_dir=root, virtual_mode=True)
    for line in sys.stdin:
        ask = json.loads(line)
        result: object
        if ask["do"] == "edit":
            result = backend.edit("/" + ask["path"], ask["old"], ask["new"])
        elif ask["do"] == "read":
            result = backend.read("/" + ask["path"], offset=ask["line"] - 1, limit=100)
        else:
            result = backend.grep(ask["pattern"], "/")
        error = getattr(result, "error", None)
        print(json.dumps({"ok": not error, "text": str(error or result)}), flush=True)


main(sys.argv[1])
