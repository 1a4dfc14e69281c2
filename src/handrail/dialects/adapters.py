"""Import the adapter of a tool: a Python file in the folder of a dialect, with a `TOOL` that builds on the tool.

An adapter is imported when its tool is used for the first time. `folder.py` decides which folders may have one.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from handrail.dialects.folder import PACKAGE, DialectError, is_shipped
from handrail.tools.tool import AnyTool, Tool


@cache
def load_adapter(file: Path, tool_id: str) -> AnyTool:
    """The tool that an adapter defines; raises `DialectError` if it is none of that id."""
    if is_shipped(file.parent):
        folders = file.parent.resolve().relative_to(PACKAGE).parts
        module = import_module(".".join(("handrail", *folders, file.stem)))
    else:
        module = _import_file(file)
    tool = getattr(module, "TOOL", None)
    if not isinstance(tool, Tool) or tool.id != tool_id:
        raise DialectError(f"{file}: an adapter of {tool_id} defines TOOL, a Tool with id={tool_id!r}")
    return tool


def _import_file(file: Path) -> ModuleType:
    """Import a file of another package under a name that no import statement can use."""
    name = f"handrail adapter {file.resolve()}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise DialectError(f"{file}: the adapter cannot be imported")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
