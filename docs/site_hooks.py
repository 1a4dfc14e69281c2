"""Hooks of the documentation site: the reference is made from the code, and links out of docs/ become plain text."""

from __future__ import annotations

import inspect
import posixpath
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import handrail
from handrail import cli, dialects
from handrail.errors import iterate_failures

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:]+)(?:#[^)]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages to the site."""
    from mkdocs.structure.files import File

    pages = {
        "reference/commands.md": describe_commands(),
        "reference/tools.md": describe_tools(),
        "reference/errors.md": describe_errors(),
        "reference/python.md": describe_names(),
        "security.md": (ROOT / "SECURITY.md").read_text(encoding="utf-8").replace("](docs/", "]("),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    for file in [file for file in files if file.src_uri.startswith("decisions/")]:
        files.remove(file)
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Sources, tests and decisions are not part of the site: their names stay, without a link."""
    folder = posixpath.dirname(page.file.src_uri)

    def unlink(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        return link[1] if target.startswith(("../", "decisions")) else link[0]

    return _LINK.sub(unlink, markdown.replace("](../SECURITY.md)", "](security.md)"))


def describe_commands() -> str:
    """The help of every command, as the program prints it."""
    parts = ["# Commands\n\nThe help of each command, as `handrail COMMAND --help` prints it.\n"]
    for name, (module, about) in cli.COMMANDS.items():
        parser = import_module(f"handrail.cli.{module}").parser()
        parts.append(f"## handrail {name}\n\n{about[0].upper()}{about[1:]}.\n\n```text\n{parser.format_help()}```\n")
    return "\n".join(parts)


def describe_tools() -> str:
    """The tools of every dialect with the descriptions and arguments that a model gets."""
    parts = ["# Tools\n\nThe tools of each dialect, as `handrail tools --dialect D` lists them.\n"]
    for name in dialects.names():
        dialect = dialects.load(name)
        parts.append(f"## {name}\n")
        for spec in map(dialect.spec, dialect.entries):
            first = spec.description.strip().partition("\n")[0]
            parts.append(f"### {name}: {spec.name}\n\n{_plain(first)}\n\n| Argument | Type | Meaning |\n|---|---|---|")
            properties = spec.schema.get("properties", {})
            for argument, facts in properties.items():
                kind = facts.get("type") or "/".join(str(one.get("type", "")) for one in facts.get("anyOf", []))
                parts.append(f"| `{argument}` | {kind} | {_plain(str(facts.get('description', '')))} |")
            parts.append("")
    return "\n".join(parts)


def describe_errors() -> str:
    """Every error code with the class that raises it and the sentence of the native dialect."""
    native = dialects.load("native")
    rows = {}
    for kind in iterate_failures():
        rows[kind.code] = _plain((inspect.getdoc(kind) or "").partition("\n")[0])
    texts = {code: _plain(native.templates.messages.get(f"errors.{code}", "")) for code in rows}
    lines = [f"| `{code}` | {about} | {texts[code]} |" for code, about in sorted(rows.items())]
    brackets = "Names in braces are filled in; parts in double brackets are there only if they apply."
    head = f"# Error codes\n\nThe `error.code` of a result. {brackets}\n"
    return "\n".join([head, "| Code | Meaning | Text in the native dialect |", "|---|---|---|", *lines, ""])


def describe_names() -> str:
    """The public names of the package with their signatures and first sentences."""
    parts = ["# Python names\n\nEverything that can be imported from `handrail`.\n"]
    for name in sorted(handrail.__all__):
        value = getattr(handrail, name)
        about = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")
        parts.append(f"## {name}\n\n```python\n{_signature(name, value)}\n```\n\n{_plain(about)}\n")
        if inspect.isclass(value):
            for method, function in inspect.getmembers(value, inspect.isfunction):
                if not method.startswith("_") and function.__module__.startswith("handrail") and function.__doc__:
                    first = (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")
                    parts.append(f"- `{method}`: {_plain(first)}")
            parts.append("")
    return "\n".join(parts)


def _signature(name: str, value: Any) -> str:
    if not callable(value):
        return f"{name} = {value!r}"
    try:
        return f"{name}{inspect.signature(value)}"
    except (TypeError, ValueError):
        return name


def _plain(text: str) -> str:
    """A sentence for a table: no line breaks, no bars, no markup."""
    return re.sub(r"\s+", " ", text).replace("``", "`").replace("|", "\\|").replace("<", "&lt;").strip()
