"""Clients in Python that start a server for every call, LangChain's adapters and `llm`: they read, then edit."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.clients.packages import cache

HANDRAIL = str(Path(sys.executable).with_name("handrail"))
LANGCHAIN = """
import asyncio, sys
from langchain_mcp_adapters.client import MultiServerMCPClient

async def main():
    server = {"transport": "stdio", "command": sys.argv[1], "args": ["mcp", sys.argv[2], "--mode", "full"]}
    tools = {tool.name: tool for tool in await MultiServerMCPClient({"handrail": server}).get_tools()}
    print(await tools["Read"].ainvoke({"file_path": "poem.txt"}))
    edit = {"file_path": "poem.txt", "old_string": "roses are red", "new_string": "roses are pink"}
    print(await tools["Edit"].ainvoke(edit))

asyncio.run(main())
"""
LLM = """
import json, sys
from pathlib import Path
from llm_tools_mcp.register_tools import MCP

config = Path(sys.argv[2]) / "mcp.json"
server = {"type": "stdio", "command": sys.argv[1], "args": ["mcp", sys.argv[2], "--mode", "full"]}
config.write_text(json.dumps({"mcpServers": {"handrail": server}}))
tools = {tool.name: tool for tool in MCP(str(config)).tools()}
print(tools["Read"].implementation(file_path="poem.txt"))
edit = {"file_path": "poem.txt", "old_string": "roses are red", "new_string": "roses are pink"}
print(tools["Edit"].implementation(**edit))
"""


def install(name: str, *packages: str) -> str:
    """A Python of its own with these packages: they need other versions than ours."""
    folder = cache() / name
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        words = [str(python), "-m", "pip", "install", "--quiet", *packages]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"pip cannot install {' '.join(packages)}: {done.stderr.strip()[-300:]}")
        (folder / "ready").touch()
    return str(python)


@pytest.mark.parametrize(
    ("name", "packages", "script"),
    [
        ("langchain-mcp-adapters-0.3.2", ["langchain-mcp-adapters==0.3.2", "mcp<2"], LANGCHAIN),
        ("llm-tools-mcp-0.4", ["llm==0.36", "llm-tools-mcp==0.4", "mcp<2"], LLM),
    ],
)
def test_a_client_with_one_session_per_call_reads_and_then_edits(
    tmp_path: Path, name: str, packages: list[str], script: str
) -> None:
    python = install(name, *packages)
    poem = tmp_path / "poem.txt"
    poem.write_text("roses are red\nviolets are blue\n", encoding="utf-8")
    environment = {**os.environ, "HOME": str(tmp_path), "LLM_USER_PATH": str(tmp_path)}
    words = [python, "-c", script, HANDRAIL, str(tmp_path)]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "violets are blue" in done.stdout and "You have not read poem.txt" in done.stdout, done.stdout
    assert poem.read_text(encoding="utf-8") == "roses are pink\nviolets are blue\n"
