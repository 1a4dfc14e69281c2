"""Secrets of the workspace, by their names and by what is in them: Read and Grep agree with commands."""

from __future__ import annotations

import base64
import os
import random
import shutil
import string
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from handrail import Session, Settings
from tests.drafts.machine import require_drafts

pytestmark = pytest.mark.slow  # starts many processes

NAMES = (
    *(
        ".env",
        ".env.local",
        "prod.env",
        ".envrc",
        ".dev.vars",
        ".secrets.toml",
        "secret.txt",
        "secrets.ini",
        "app.secrets",
    ),
    *("credentials.yml", "credentials.toml", "aws_credentials.csv", "auth.json", "auth.toml", "local.settings.json"),
    *("terraform.tfvars", "prod.auto.tfvars", "x.tfvars.json", "terraform.tfstate", "vault.yml", ".vault_pass"),
    *("key.json", "gcp-key.json", "serviceAccountKey.json", "my-firebase-adminsdk-1.json", "client_secret_1.json"),
    *(
        "id_rsa",
        "id_rsa_work",
        "id_ed25519.github",
        "deploy_key",
        "server.key",
        "server.pem",
        "store.p12",
        "AuthKey.p8",
    ),
    *("cookies.txt", "cookies.sqlite", "passwords.txt", ".password", "token.txt", "tokens.json", "gh_token.txt"),
    *("api_key.txt", "apikeys.json", "office.ovpn", "kubeconfig.yaml", ".npmrc", ".netrc", ".pgpass", "wp-config.php"),
)
PLACES = ("", "config/", "node_modules/pkg/", ".venv/lib/python3.11/site-packages/pkg/", "dist/")
PLAIN = (
    *("package.json", "src/auth.py", "src/auth.ts", "locales/en/auth.json", "id_rsa_work.pub", "id_rsa_parse.py"),
    *("terraform.tfvars.example", ".dev.vars.example", ".env.example", "credentials.md", "secrets.py", "tokens.py"),
    *("keyboard.json", "cookies.ts", "password.html", "main.tf", "token.go", "api_key.rb", "vault.tf", "config.yml"),
)
_LETTERS = string.ascii_letters + string.digits


def _pick(chance: random.Random, letters: str, count: int) -> str:
    return "".join(chance.choice(letters) for _ in range(count))


def _make_key(chance: random.Random, kind: str, size: int = 1200) -> str:
    body = base64.b64encode(chance.randbytes(size)).decode("ascii")
    rows = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{rows}\n-----END {kind}PRIVATE KEY-----\n"


SHAPES: dict[str, Callable[[random.Random], str]] = {
    "rsa": lambda chance: _make_key(chance, "RSA "),
    "pkcs8": lambda chance: _make_key(chance, "", 48),
    "openssh": lambda chance: _make_key(chance, "OPENSSH "),
    "in json": lambda chance: f'{{"private_key": "{_make_key(chance, "")}"}}'.replace("\n", "\\n"),
    "encrypted": lambda chance: _make_key(chance, "RSA ").replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\n\n", 1),
    "aws": lambda chance: f"aws_access_key_id = AKIA{_pick(chance, string.ascii_uppercase + '234567', 16)}\n",
    "github": lambda chance: f'token = "ghp_{_pick(chance, _LETTERS, 36)}"\n',
    "gitlab": lambda chance: f"glpat-{_pick(chance, _LETTERS, 20)}\n",
    "anthropic": lambda chance: f"KEY=sk-ant-api03-{_pick(chance, _LETTERS, 80)}\n",
    "stripe": lambda chance: f"stripe: sk_live_{_pick(chance, _LETTERS, 24)}\n",
    "google": lambda chance: f"AIza{_pick(chance, _LETTERS, 35)}\n",
    "slack": lambda chance: f"xoxb-{_pick(chance, string.digits, 12)}-{_pick(chance, _LETTERS, 24)}\n",
    "npm": lambda chance: f"npm_{_pick(chance, _LETTERS, 36)}\n",
}
MADE_UP = (
    'KEY = "AKIAIOSFODNN7EXAMPLE"\n',
    f"ghp_{'x' * 36}\n",
    "-----BEGIN PRIVATE KEY-----\nMIIE...\n-----END PRIVATE KEY-----\n",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ\n",
    f"sk_live_{'1234567890' * 3}\n",
)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    require_drafts()
    (tmp_path / "work").mkdir()
    settings = Settings(durable=False, raise_bugs=True, state=str(tmp_path / "state"))
    with Session(tmp_path / "work", settings=settings, approve=lambda _: True) as session:
        yield session


def _write(work: Path, name: str, text: str) -> None:
    (work / name).parent.mkdir(parents=True, exist_ok=True)
    (work / name).write_text(text, encoding="utf-8")


def _list_seen(session: Session, names: list[str]) -> dict[str, list[str]]:
    """Which of the files a command, Read and Grep show. Each holds its own name behind `canary`."""
    assert names
    command = "find . -type f -exec grep -ho 'canary [^ ]*' {} + | sort"
    by_command = session.call("Bash", {"command": command}).text
    by_grep = session.call("Grep", {"pattern": "canary", "output_mode": "content", "head_limit": 5000}).text
    seen: dict[str, list[str]] = {"Bash": [], "Read": [], "Grep": []}
    for name in names:
        read = session.call("Read", {"file_path": name})
        for tool, text in (("Bash", by_command), ("Grep", by_grep), ("Read", read.text)):
            if f"canary {name}\n" in f"{text}\n":
                seen[tool].append(name)
    return seen


def test_untracked_files_with_a_secrets_name_are_hidden_everywhere(session: Session, tmp_path: Path) -> None:
    names = [place + name for place in PLACES for name in NAMES]
    for name in (*names, *PLAIN):
        _write(tmp_path / "work", name, f"canary {name}\n")
    seen = _list_seen(session, [*names, *PLAIN])
    visible = [name for name in PLAIN if not name.startswith(".")]  # Grep leaves out hidden files
    assert seen["Read"] == list(PLAIN)
    assert seen["Bash"] == list(PLAIN)
    assert seen["Grep"] == visible


def test_keys_and_tokens_are_found_in_files_of_any_name(session: Session, tmp_path: Path) -> None:
    chance = random.Random(4)
    names = [f"{place}{number}.{end}" for number, end in enumerate(("txt", "py", "yml")) for place in ("", "a/b/")]
    every: dict[str, str] = {}
    for shape, make in SHAPES.items():
        for name in names:
            every[f"{shape.replace(' ', '-')}/{name}"] = make(chance)
    for name, text in every.items():
        _write(tmp_path / "work", name, f"canary {name}\n{text}")
    for number, text in enumerate(MADE_UP):
        _write(tmp_path / "work", f"made-up-{number}.txt", f"canary made-up-{number}.txt\n{text}")
    plain = [f"made-up-{number}.txt" for number in range(len(MADE_UP))]
    # Neither are large files looked at, nor packages and build output.
    for name in ("large.txt", "node_modules/pkg/a.js", "dist/bundle.js", "my-env/lib/a.py"):
        size = 70_000 if name == "large.txt" else 10
        _write(tmp_path / "work", name, f"canary {name}\n{SHAPES['github'](chance)}{'#' * size}\n")
        plain.append(name)
    _write(tmp_path / "work", "my-env/pyvenv.cfg", "home = /usr/bin\n")
    seen = _list_seen(session, [*every, *plain])
    assert {tool: sorted(names) for tool, names in seen.items()} == dict.fromkeys(seen, sorted(plain))


def test_what_the_model_writes_stays_visible_to_it(session: Session, tmp_path: Path) -> None:
    chance = random.Random(5)
    token, other = SHAPES["github"](chance), SHAPES["stripe"](chance)
    work = tmp_path / "work"
    _write(work, "plain.py", "first = 1\n")
    assert session.call("Write", {"file_path": "tests/fixture.py", "content": token}).ok
    assert session.call("Write", {"file_path": "auth.json", "content": '{"a": 1}\n'}).ok
    session.call("Read", {"file_path": "plain.py"})
    assert session.call("Edit", {"file_path": "plain.py", "old_string": "first = 1", "new_string": token.strip()}).ok
    script = f"printf '%s' '{other.strip()}' > made.txt; cat tests/fixture.py plain.py auth.json"
    result = session.call("Bash", {"command": script})
    assert result.text.count("ghp_") == 2 and '"a": 1' in result.text
    for name in ("tests/fixture.py", "auth.json", "plain.py", "made.txt"):
        assert session.call("Read", {"file_path": name}).ok, name
    old, new = '{"a": 1}', '{"a": 2}'
    assert session.call("Edit", {"file_path": "auth.json", "old_string": old, "new_string": new}).ok
    assert session.call("Bash", {"command": "cat auth.json made.txt"}).text.count("sk_live_") == 1
    # The person puts another token there: that one is a secret.
    (work / "made.txt").write_text(SHAPES["gitlab"](chance), encoding="utf-8")
    assert "glpat" not in session.call("Bash", {"command": "cat made.txt"}).text
    assert not session.call("Read", {"file_path": "made.txt"}).ok
    (work / "made.txt").write_text("nothing\n", encoding="utf-8")
    assert "nothing" in session.call("Bash", {"command": "cat made.txt"}).text


def test_a_secret_is_neither_overwritten_nor_edited(session: Session, tmp_path: Path) -> None:
    token = SHAPES["github"](random.Random(6))
    for name in ("auth.json", "notes.txt"):
        _write(tmp_path / "work", name, f"first line\n{token}")
        assert session.call("Write", {"file_path": name, "content": "mine\n"}).status == "denied"
        edit = {"file_path": name, "old_string": "first line", "new_string": "second line"}
        assert session.call("Edit", edit).status == "denied"
        assert (tmp_path / "work" / name).read_text(encoding="utf-8") == f"first line\n{token}"


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_tracked_files_stay_visible_whatever_is_in_them(session: Session, tmp_path: Path) -> None:
    chance = random.Random(7)
    work = tmp_path / "work"
    for shape, make in SHAPES.items():
        _write(work, f"{shape.replace(' ', '-')}/tracked.txt", make(chance))
    _write(work, "auth.json", "canary\n")
    person = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], [*person, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=work, check=True, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    _write(work, "rsa/untracked.txt", SHAPES["rsa"](chance))
    command = "find . -name '*tracked.txt' -size +0 | wc -l; cat auth.json; git status --short"
    assert session.call("Bash", {"command": command}).text.split() == [str(len(SHAPES)), "canary"]
    assert all(session.call("Read", {"file_path": f"{shape.replace(' ', '-')}/tracked.txt"}).ok for shape in SHAPES)
    assert session.call("Read", {"file_path": "rsa/untracked.txt"}).status == "denied"


def test_certificates_are_no_secrets(session: Session, tmp_path: Path) -> None:
    key = _make_key(random.Random(8), "")
    certificate = key.replace("PRIVATE KEY", "CERTIFICATE")
    _write(tmp_path / "work", ".venv/site-packages/certifi/cacert.pem", f"# public\n{certificate}{certificate}")
    _write(tmp_path / "work", "both.pem", f"{certificate}{key}")
    text = session.call("Bash", {"command": "find . -name '*.pem' -exec cat {} +"}).text
    assert text.count("BEGIN CERTIFICATE") == 2 and "PRIVATE" not in text


def test_a_command_that_fails_names_the_hidden_files_once(session: Session, tmp_path: Path) -> None:
    _write(tmp_path / "work", "server.py", "open('.env'); open('config/auth.json')\n")
    _write(tmp_path / "work", ".env", "PASSWORD=canary\n")
    _write(tmp_path / "work", "config/auth.json", "canary\n")
    assert session.call("Bash", {"command": "true"}).notes == ()
    failed = session.call("Bash", {"command": "python3 server.py"})
    assert [note.code for note in failed.notes] == ["secrets_hidden"]
    assert ".env, config/auth.json" in failed.text and "canary" not in failed.text
    assert session.call("Bash", {"command": "python3 server.py"}).notes == ()
    _write(tmp_path / "work", "terraform.tfvars", "canary\n")
    (note,) = session.call("Bash", {"command": "python3 server.py"}).notes
    assert "terraform.tfvars" in note.text and ".env" not in note.text
