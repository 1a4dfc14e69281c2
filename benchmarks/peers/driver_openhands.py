"""The editor of openhands-aci: answers the requests of the benchmark, one JSON object a line."""

from __future__ import annotations

import json
import os
import sys

from openhands_aci.editor import OHEditor  # type: ignore[import-not-found]
from openhands_aci.editor.exceptions import ToolError  # type: ignore[import-not-found]


def main(root: str) -> None:
    editor = OHEditor(workspace_root=root)
    for line in sys.stdin:
        ask = json.loads(line)
        path = os.path.join(root, ask.get("path", ""))
        try:
            if ask["do"] == "edit":
                result = editor(command="str_replace", path=path, old_str=ask["old"], new_str=ask["new"])
            elif ask["do"] == "read":
                result = editor(command="view", path=path, view_range=[ask["line"], ask["line"] + 99])
            else:
                print(json.dumps({"missing": True}), flush=True)
                continue
        except ToolError as error:
            print(json.dumps({"ok": False, "text": str(error)}), flush=True)
            continue
        print(json.dumps({"ok": not result.error, "text": result.output or ""}), flush=True)


main(sys.argv[1])
