"""What a release is checked for, and that the files name the version of the package."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from handrail import __version__
from handrail.cli import mcp
from scripts.check_release import ROOT, find_problems


def test_the_entry_of_the_registry_fits_the_package() -> None:
    server = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    (package,) = server["packages"]
    assert server["version"] == package["version"] == __version__
    assert len(server["description"]) <= 100  # the registry's limit
    assert package["identifier"] == "handrail" and package["packageArguments"][0]["value"] == "mcp"
    assert callable(mcp.main)


@pytest.mark.parametrize("broken", ["", "src/handrail/version.py", "CHANGELOG.md", "server.json", "README.md"])
def test_what_does_not_fit_a_release_is_named(tmp_path: Path, broken: str) -> None:
    for name in ("src/handrail/version.py", "CHANGELOG.md", "server.json", "README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "src/handrail/version.py").write_text('__version__ = "9.8.7"\n', encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 9.8.7 (2030-01-02)\n", encoding="utf-8")
    server = (ROOT / "server.json").read_text(encoding="utf-8").replace(__version__, "9.8.7").replace("OWNER", "me")
    (tmp_path / "server.json").write_text(server, encoding="utf-8")
    (tmp_path / "README.md").write_text("<!-- mcp-name: io.github.me/handrail -->\n", encoding="utf-8")
    if broken:
        shutil.copy(ROOT / broken, tmp_path / broken)
    problems = find_problems(tmp_path, "9.8.7")
    assert bool(problems) == bool(broken)
    assert all(broken in problem or broken == "server.json" for problem in problems)
