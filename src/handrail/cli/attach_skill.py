"""The skill that tells the model of an attached agent about undo: a file of its own, removed by `handrail detach`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

from handrail.cli.failures import explain_failures
from handrail.cli.output import Stop
from handrail.files.configuration import ConfigurationFile
from handrail.mcp.install.records import Records

_PART = "#skill"


def install(path: str) -> None:
    """Write the skill, unless somebody else has written or changed the file."""
    text = resources.files("handrail.attach.client").joinpath("SKILL.md").read_text(encoding="utf-8")
    with explain_failures(path, Stop), ConfigurationFile(path) as config, Records() as records:
        known = records.get(config.real + _PART)
        if config.text == text or (config.existed and not _is_ours(config, known)):
            return
        new_directories = config.write(text)
        directories = known["directories"] if known else new_directories
        records.put(config.real + _PART, {"directories": directories, "after": config.digest(text)})


def remove(path: str) -> None:
    """Remove the skill that `install` has written, with the directories made for it."""
    with explain_failures(path, Stop), ConfigurationFile(path) as config, Records() as records:
        known = records.get(config.real + _PART)
        if known and config.existed and _is_ours(config, known):
            config.delete(known["directories"])
        records.forget(config.real + _PART)


def _is_ours(config: ConfigurationFile, known: Mapping[str, object] | None) -> bool:
    return known is not None and known["after"] == config.digest(config.text)
