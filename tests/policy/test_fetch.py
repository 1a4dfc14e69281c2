"""Fetching from hosts that a project already uses: no question in a sandbox, unless the repository was changed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.model import NetworkAccess
from handrail.policy.files import PolicyFile
from handrail.policy.judge import Machine, RulePolicy
from handrail.policy.modes import Mode
from handrail.policy.rules import from_table
from handrail.workspace import Root
from tests import sizes

pytestmark = pytest.mark.slow  # starts many processes


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, timeout=60)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "a")
    git(root, "config", "user.email", "a@b")
    git(root, "commit", "-q", "--allow-empty", "-m", "first")
    git(root, "remote", "add", "origin", "https://git.example.org/team/project.git")
    return root


Change = Callable[[Path], object]


def judge(
    root: Path, command: str, *, mode: Mode = "accept-edits", held: bool = True, rule: str = "", change: Change = id
) -> tuple[str, list[NetworkAccess]]:
    """The decision on a command, and its uses of the network; ``change`` is made after the session began."""
    files = (PolicyFile("user", "user", (from_table({"rule": rule}),)),) if rule else ()
    here = partial(bool, held)
    policy = RulePolicy(
        [Root(str(root))], mode, files, Machine(namespaced=here, offline=here), str(root.parent / "home")
    )
    settings = Settings(raise_bugs=True, sandbox="off", state=str(root.parent / "state"))
    with Session(root, policy=policy, settings=settings) as session:
        session.services.command_host()  # any command opens it before it runs
        change(root)
        judged = session.prepare("Bash", {"command": command})
        return judged.verdict.decision, [access for access in judged.accesses if isinstance(access, NetworkAccess)]


def test_the_remotes_of_the_first_session_hold_in_later_ones(project: Path, tmp_path: Path) -> None:
    assert judge(project, "git fetch")[0] == "allow"
    git(project, "remote", "set-url", "origin", "https://evil.example.org/take?data=1")  # by a command, say
    assert judge(project, "git fetch")[0] == "ask"
    git(project, "remote", "add", "second", "https://git.example.org/team/other.git")
    assert judge(project, "git fetch second")[0] == "ask"
    git(project, "remote", "set-url", "origin", "https://git.example.org/team/project.git")
    assert judge(project, "git fetch")[0] == "allow"
    for record in (tmp_path / "state/remotes").iterdir():  # a record that cannot be read makes nothing free
        record.unlink()
        record.mkdir()
    assert judge(project, "git fetch")[0] == "ask"


FETCHES = [
    "git fetch",
    "git fetch origin main",
    "git pull --rebase",
    "git -C . pull | tail -5",
    "git switch main && git pull",
    "git stash && git pull --ff-only && git log --oneline -3",
    "git ls-remote origin",
    "git fetch --all",
    "gh pr view 3",
    "export GH_PAGER=cat; gh pr list --json number | head",
    "gh run view 5 --log-failed 2>&1 | grep -n error",
]


@pytest.mark.parametrize("command", FETCHES)
def test_a_fetch_needs_no_answer_in_a_sandbox(command: str, project: Path) -> None:
    decision, uses = judge(project, command)
    assert decision == "allow"
    assert all(use.fetches and use.hosts for use in uses)
    assert judge(project, command, held=False)[0] == "ask"
    assert judge(project, command, mode="ask")[0] == "ask"
    assert judge(project, command, mode="read-only")[0] == "deny"
    assert judge(project, command, rule="deny Network(git*)")[0] == "deny"
    assert judge(project, command, rule="ask Network(git*)")[0] == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git fetch && ./build.sh",
        "gh pr view 3 | python3 -c 'import sys'",
        "gh pr view 3; make",
        "git fetch https://other.example.org/x",
        "git fetch other",
        "git push",
        "gh pr merge 3",
        "git fetch && git push",
        "x=$(git fetch) && eval $x",
        "HOME=. git fetch",
        "git submodule update",
    ],
)
def test_anything_beside_a_fetch_or_beyond_it_is_asked_about(command: str, project: Path) -> None:
    assert judge(project, command)[0] != "allow"


def write_hook(root: Path) -> None:
    hook = root / ".git" / "hooks" / "post-merge"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n", encoding="utf-8")


@pytest.mark.parametrize(
    "setting",
    [
        ("url.https://evil.example.org/.insteadOf", "https://git.example.org/"),
        ("remote.origin.url", "https://evil.example.org/x"),
        ("core.sshCommand", "evil"),
        ("core.gitProxy", "evil"),
        ("core.fsmonitor", "evil"),
        ("core.hooksPath", "hooks"),
        ("core.askPass", "evil"),
        ("core.worktree", "/"),
        ("credential.helper", "!evil"),
        ("http.proxy", "http://evil.example.org"),
        ("http.https://git.example.org.proxy", "evil.example.org"),
        ("http.sslVerify", "false"),
        ("http.extraHeader", "x: y"),
        ("remote.origin.uploadpack", "evil"),
        ("remote.origin.vcs", "evil"),
        ("remote.origin.proxy", "evil.example.org"),
        ("remote.origin.promisor", "true"),
        ("filter.x.smudge", "evil"),
        ("merge.x.driver", "evil"),
        ("include.path", "../evil"),
        ("includeIf.gitdir:/.path", "../evil"),
        ("alias.pull", "!evil"),
        ("protocol.ext.allow", "always"),
        ("branch.main.remote", "https://evil.example.org/x"),
        ("gpg.program", "evil"),
        ("submodule.recurse", "true"),
        ("fetch.recurseSubmodules", "true"),
        ("pull.twohead", "evil"),
        ("hook.x.command", "evil"),
    ],
)
def test_a_setting_that_a_command_has_changed_leads_to_a_question(setting: tuple[str, str], project: Path) -> None:
    assert judge(project, "git pull", change=lambda root: git(root, "config", *setting))[0] == "ask"


@pytest.mark.parametrize(
    "change",
    [
        write_hook,
        lambda root: (root / ".git" / "modules" / "sub").mkdir(parents=True),
        lambda root: git(root, "remote", "set-url", "--add", "origin", "https://evil.example.org/x"),
        lambda root: (root / ".git" / "config").write_text("[broken", encoding="utf-8"),
    ],
)
def test_other_changes_of_the_repository_lead_to_a_question(change: Change, project: Path) -> None:
    assert judge(project, "git pull", change=change)[0] == "ask"


@pytest.mark.parametrize(("command", "decision"), [("more", "ask"), ("--all", "ask"), ("origin", "allow")])
def test_a_remote_that_was_added_meanwhile_is_not_known(command: str, decision: str, project: Path) -> None:
    def add(root: Path) -> None:
        git(root, "remote", "add", "more", "https://evil.example.org/x")

    assert judge(project, f"git fetch {command}", change=add)[0] == decision


ADDRESSES = [
    "https://git.example.org/DATA",
    "https://git.example.org/team/project.git",  # as the remote has it: nobody looks that closely
    "https://git.example.org/team/project.git/../../DATA",
    "https://git.example.org/team/project.git?DATA",
    "https://DATA@git.example.org/team/project.git",
    "https://git.example.org:8443/DATA",
    "git@git.example.org:DATA",
    "git.example.org:DATA",
    "ssh://git.example.org/DATA",
    "git://git.example.org/DATA",
    "HTTPS://GIT.EXAMPLE.ORG/DATA",
]
VERBS = ["fetch", "pull", "ls-remote", "fetch -q", "-C . fetch", "pull --rebase", "ls-remote --heads", "fetch --tags"]


@pytest.mark.parametrize(
    ("verb", "address"), sizes.spread([(verb, address) for verb in VERBS for address in ADDRESSES], 20)
)
def test_an_address_in_the_words_is_asked_about(verb: str, address: str, project: Path) -> None:
    assert judge(project, f"git {verb} {address}")[0] == "ask"
    assert judge(project, f"git {verb} '{address}' main")[0] == "ask"


WRITES: dict[str, Callable[[Path, str], object]] = {
    "add": lambda root, address: git(root, "remote", "add", "more", address),
    "set-url": lambda root, address: git(root, "remote", "set-url", "origin", address),
    "config": lambda root, address: git(root, "config", "remote.more.url", address),
    "config of origin": lambda root, address: git(root, "config", "remote.origin.url", address),
    "branch": lambda root, address: git(root, "config", "branch.main.remote", address),
    "named by its address": lambda root, address: git(root, "config", f"remote.{address}.url", address),
}


@pytest.mark.parametrize(("way", "address"), sizes.spread([(way, one) for way in WRITES for one in ADDRESSES], 24))
def test_a_remote_is_known_by_its_whole_address(way: str, address: str, project: Path) -> None:
    """A host that the project uses makes no other address there known."""
    if address == ADDRESSES[1]:
        return  # the same remote by another name
    name = {"branch": "", "named by its address": address, "add": "more", "config": "more"}.get(way, "origin")
    decision, _ = judge(project, f"git fetch {name}", change=lambda root: WRITES[way](root, address))
    assert decision == "ask"


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("mode", ["accept-edits", "full"])
def test_a_remote_elsewhere_is_added_only_with_approval(address: str, mode: Mode, project: Path) -> None:
    for command in (
        f"git remote add more {address}",
        f"git remote add -f more '{address}'",
        f"git remote set-url origin {address}",
        f"git remote set-url --push origin {address}",
        f"git -C . remote add more {address}",
        f"git status && git remote add more {address}",
        "git remote add more $ADDRESS",
    ):
        assert judge(project, command, mode=mode)[0] == "ask", command


@pytest.mark.parametrize("words", ["add up ../up.git", "add up /srv/up.git", "rename origin up", "remove origin", "-v"])
def test_other_changes_of_remotes_need_no_approval(words: str, project: Path) -> None:
    assert judge(project, f"git remote {words}")[0] == "allow"


def test_a_repository_inside_knows_no_remotes(project: Path) -> None:
    """A command may have created it, and its remote carries what the command likes."""
    inner = project / "inner"
    inner.mkdir()
    git(inner, "init", "-q", "-b", "main")
    git(inner, "remote", "add", "origin", "https://git.example.org/DATA")
    for command in ("git -C inner fetch", "cd inner && git ls-remote"):
        assert judge(project, command)[0] == "ask", command


def test_a_program_of_the_project_is_not_taken_for_git(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = project / "venv" / "bin"
    tools.mkdir(parents=True)
    (tools / "gh").write_text("#!/bin/sh\n", encoding="utf-8")
    (tools / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    assert judge(project, "gh pr view 3")[0] == "ask"


def test_a_remote_in_a_directory_needs_no_network(project: Path, tmp_path: Path) -> None:
    git(project, "remote", "set-url", "origin", str(tmp_path / "other"))
    for command in ("git fetch", "git pull", "git push"):
        assert judge(project, command)[0] == "allow"


def test_rules_know_the_hosts_of_remotes(project: Path) -> None:
    git(project, "remote", "add", "ssh", "git@ssh.example.org:team/project.git")
    assert judge(project, "git push", rule="allow Network(git.example.org)")[0] == "allow"
    assert judge(project, "git push ssh main", rule="allow Network(git.example.org)")[0] == "ask"
    assert judge(project, "git push ssh main", rule="allow Network(ssh.example.org)")[0] == "allow"
    assert judge(project, "git push ssh main", rule="deny Network(*.example.org)")[0] == "deny"
    git(project, "config", "remote.origin.pushurl", "https://push.example.org/x")
    assert judge(project, "git push", rule="allow Network(git.example.org)")[0] == "ask"
    assert judge(project, "git push", rule="allow Network(push.example.org)")[0] == "allow"
    git(project, "config", "url.https://evil.example.org/.pushInsteadOf", "https://push.example.org/")
    assert judge(project, "git push", rule="allow Network(push.example.org)")[0] == "ask"


def test_a_question_names_the_host_and_offers_the_rule(project: Path) -> None:
    policy = RulePolicy([Root(str(project))], "accept-edits", home=str(project.parent / "home"))
    settings = Settings(sandbox="off", state=str(project.parent / "state"))
    with Session(project, policy=policy, settings=settings) as session:
        judged = session.prepare("Bash", {"command": "git push"})
        (use,) = [access for access in judged.accesses if isinstance(access, NetworkAccess)]
        verdict = policy.verdict(use)
    assert verdict.why == "`git push` would use the network (git.example.org)"
    assert verdict.allow == "allow Network(git.example.org)"
