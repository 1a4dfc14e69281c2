"""What is destructive or privileged, beyond what is refused everywhere: as data, each with its reason."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from handrail.shell.effects.arguments import Arg
from handrail.shell.effects.git import verb_of
from handrail.shell.effects.read_only import find_starts
from handrail.shell.parser.script import Simple


@dataclass(frozen=True, slots=True)
class Harm:
    """A command is this if each of `needs` is there. Each is a set of spellings, one of which is enough.

    `-x` is that letter alone or among others, `--long` that option with or without a value, `~text` a regular
    expression that is found in some argument, anything else a word as it is. Options are given apart by blanks.
    """

    name: str
    needs: tuple[str, ...] = ()
    why: str = ""


_HARMS = (
    Harm(
        "git", ("push", "-f --force --force-with-lease --mirror --delete -d ~^\\+."), "it overwrites what others have"
    ),
    Harm("git", ("reset", "--hard --merge"), "changes that were not committed are lost"),
    Harm("git", ("clean", "-f --force -x -X"), "files that git does not know are lost"),
    Harm("git", ("stash", "drop clear"), "what was stashed is lost"),
    Harm("git", ("filter-branch filter-repo",), "it rewrites the history"),
    Harm("git", ("reflog", "expire delete"), "the way back to earlier commits is lost"),
    Harm("git", ("gc", "--prune"), "commits that nothing points at are lost"),
    Harm("git", ("prune",), "commits that nothing points at are lost"),
    Harm("git", ("update-ref", "-d --stdin"), "it deletes references"),
    Harm("git", ("checkout switch", "-f --force --discard-changes"), "changes that were not committed are lost"),
    Harm("git", ("~^--upload-pack|^--receive-pack|^ext::",), "it runs a command of its argument"),
    Harm("mkfs", (), "it makes a new file system"),
    Harm("wipefs", (), "it destroys a file system"),
    Harm("fdisk", (), "it changes partitions"),
    Harm("parted", (), "it changes partitions"),
    Harm("blkdiscard", (), "it destroys a disk"),
    Harm("cryptsetup", (), "it changes encrypted disks"),
    Harm("mount", ("~.",), "it mounts a file system"),
    Harm("umount", (), "it takes a file system away"),
    Harm("swapoff", (), "it changes the machine"),
    Harm("chroot", (), "it needs the rights of root"),
    Harm("nsenter", (), "it enters other containers"),
    Harm("setcap", (), "it gives programs the rights of root"),
    Harm("visudo", (), "it changes who may become root"),
    Harm("chmod", ("-R --recursive", "~^(?:0?777|a?\\+rwx|a=rwx)$"), "it opens all files to everyone"),
    Harm("chmod", ("~^[ugoa]*\\+[rwxX]*s|^[246][0-7]{3}$",), "programs get the rights of their owner"),
    Harm("chmod", ("-R --recursive", "~^(?:/|~|/[a-z]+/?)$"), "it changes the system"),
    Harm("chown", ("-R --recursive", "~^(?:/|~|/[a-z]+/?)$"), "it changes the system"),
    Harm("chgrp", ("-R --recursive", "~^(?:/|~|/[a-z]+/?)$"), "it changes the system"),
    Harm("killall5", (), "it ends every process"),
    Harm("crontab", ("-r",), "it deletes all timed commands"),
    Harm("useradd", (), "it changes the users of the machine"),
    Harm("userdel", (), "it changes the users of the machine"),
    Harm("usermod", (), "it changes the users of the machine"),
    Harm("groupdel", (), "it changes the users of the machine"),
    Harm("groupadd", (), "it changes the users of the machine"),
    Harm("passwd", (), "it changes passwords"),
    Harm("chpasswd", (), "it changes passwords"),
    Harm("chsh", (), "it changes the users of the machine"),
    Harm("iptables", (), "it changes the firewall"),
    Harm("ip6tables", (), "it changes the firewall"),
    Harm("nft", (), "it changes the firewall"),
    Harm("ufw", (), "it changes the firewall"),
    Harm("sysctl", ("-w --write -p ~=",), "it changes the kernel"),
    Harm("insmod", (), "it changes the kernel"),
    Harm("modprobe", (), "it changes the kernel"),
    Harm("rmmod", (), "it changes the kernel"),
    Harm("swapon", (), "it changes the machine"),
    Harm("systemctl", ("stop disable mask kill isolate",), "it stops services of the machine"),
    Harm("service", ("stop",), "it stops services of the machine"),
    Harm(
        "docker", ("system volume image container network builder buildx", "prune"), "it deletes what is not in use now"
    ),
    Harm("docker", ("run create", "--privileged ~^(?:-v|--volume=)?/:"), "the container has the rights of root here"),
    Harm("docker", ("volume", "rm remove"), "it deletes data"),
    Harm("docker", ("compose", "down", "-v --volumes"), "it deletes data"),
    Harm("docker-compose", ("down", "-v --volumes"), "it deletes data"),
    Harm("kubectl", ("delete drain",), "it takes down what runs elsewhere"),
    Harm("helm", ("uninstall delete",), "it takes down what runs elsewhere"),
    Harm("terraform", ("destroy ~^-destroy$",), "it takes down what runs elsewhere"),
    Harm(
        "terraform",
        (
            "apply",
            "~^-+auto-approve",
        ),
        "it changes what runs elsewhere without a question",
    ),
    Harm("tofu", ("destroy",), "it takes down what runs elsewhere"),
    Harm("pulumi", ("destroy",), "it takes down what runs elsewhere"),
    Harm("aws", ("~^(?:delete|terminate|remove)-|^rb$",), "it deletes what is elsewhere"),
    Harm("aws", ("s3", "rm", "--recursive"), "it deletes what is elsewhere"),
    Harm("gcloud", ("delete",), "it deletes what is elsewhere"),
    Harm("az", ("delete purge",), "it deletes what is elsewhere"),
    Harm("gsutil", ("rm rb",), "it deletes what is elsewhere"),
    Harm("gh", ("repo release secret", "delete"), "it deletes what is elsewhere"),
    Harm("npm", ("publish unpublish deprecate",), "everyone gets it, and it cannot be taken back"),
    Harm("yarn", ("publish",), "everyone gets it, and it cannot be taken back"),
    Harm("pnpm", ("publish",), "everyone gets it, and it cannot be taken back"),
    Harm("cargo", ("publish yank",), "everyone gets it, and it cannot be taken back"),
    Harm("twine", ("upload",), "everyone gets it, and it cannot be taken back"),
    Harm("gem", ("push yank",), "everyone gets it, and it cannot be taken back"),
    Harm("redis-cli", ("~(?i)^flush(?:all|db)$",), "it deletes all data"),
    Harm("dropdb", (), "it deletes a database"),
    Harm("dropuser", (), "it deletes a user of a database"),
    Harm("shred", (), "what it overwrites cannot be brought back"),
    Harm("srm", (), "what it deletes cannot be brought back"),
    Harm("launchctl", ("unload bootout remove",), "it stops services of the machine"),
    Harm("diskutil", ("~(?i)^(?:erase|partition|reformat|delete)",), "it destroys a disk"),
    Harm("csrutil", (), "it changes what protects the system"),
    Harm("spctl", (), "it changes what protects the system"),
    Harm("setenforce", (), "it changes what protects the system"),
)
_BY_NAME: dict[str, tuple[Harm, ...]] = {
    name: tuple(harm for harm in _HARMS if harm.name == name) for name in {harm.name for harm in _HARMS}
}
_DATABASES = ("psql", "mysql", "mariadb", "sqlite3", "cockroach", "clickhouse-client", "mongosh", "mongo", "sqlcmd")
_DROPS = re.compile(
    r"\b(?:drop\s+(?:database|schema|table|user|role|owned)|truncate\s+(?:table\s+)?\w|dropdatabase)"
    r"|\bdelete\s+from\s+[\w.\"`]+\s*(?:;|$)",
    re.IGNORECASE,
)
ANY = "\x01"
"""Placeholder of a computed word: it may be each that makes a command destructive."""
_FORK_BOMB = re.compile(r":\s*\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}")


def harm(run: Simple, base: str, args: Sequence[Arg], places: frozenset[str] | None) -> str:
    """Why this command is destructive or privileged; empty if it is not known to be."""
    texts = [value.text for arg in args for value in arg.values or ()]
    if base == "git" and (verb := verb_of(args)[0]):
        rest = [value.text for arg in args[verb_of(args)[1] :] for value in arg.values or ()]
        return next((row.why for row in _BY_NAME["git"] if verb == ANY or _is_verb(row, verb, rest)), "")
    for row in _BY_NAME.get(base, ()):
        if all(_there(need, texts) for need in row.needs):
            return row.why
    if base == "kill" and any(text == "-1" or text in ("0", "1") for text in texts[1:]):
        return "it ends every process"
    if base.startswith("mkfs."):
        return "it makes a new file system"
    if base in _DATABASES and any(_DROPS.search(text) for text in texts):
        return "it deletes data from a database"
    if base in _DATABASES and any(_DROPS.search(item.target.fixed or "") for item in run.redirections if item.feeds):
        return "it deletes data from a database"
    if base == "rm" and _there("-r -R --recursive", texts):
        for arg in args:
            for value in arg.values or ():
                if not value.below and any(_is_everything(place, value.text, value.glob) for place in places or (".",)):
                    return f"it deletes everything here ({arg.source})"
    if base == "find" and not any(_NARROWS.fullmatch(text) for text in texts):
        starts = [value.text for arg in find_starts(args) for value in arg.values or ()] or ["."]
        deletes = "-delete" in texts or any(posixpath.basename(text) == "rm" for text in texts)
        if deletes and any(_is_everything(".", text, False) for text in starts):
            return "it deletes everything here"
    return ""


_NARROWS = re.compile(r"-(?:i?name|i?path|i?wholename|i?regex|[acm]time|[acm]min|newer.*|size|empty|user|inum|perm)")


def _is_verb(row: Harm, verb: str, rest: Sequence[str]) -> bool:
    """A verb of git counts only where the verb stands; `git clean -n` shows what would be lost."""
    if verb == "clean" and _there("-n --dry-run", [text for text in rest if text != ANY]):
        return False
    first, *others = row.needs
    if first.startswith("~"):
        return _there(first, rest)
    long = [option for need in others for option in need.split(" ") if option.startswith("--")]
    texts = [*rest, *(option for option in long if any(_abbreviates(text, option) for text in rest))]
    return verb in first.split(" ") and all(_there(need, texts) for need in others)


def _abbreviates(text: str, option: str) -> bool:
    """Whether git takes a text for this option: names may be cut short."""
    name = text.partition("=")[0]
    return len(name) > 2 and option.startswith(name)


def fork_bomb(source: str) -> bool:
    return bool(_FORK_BOMB.search(source))


def _there(need: str, texts: Sequence[str]) -> bool:
    return any(_is_there(spelling, texts) for spelling in need.split(" "))


def _is_there(spelling: str, texts: Sequence[str]) -> bool:
    if ANY in texts and (spelling[:1] in "-~" or _may_be_verb(texts)):
        return True
    if spelling.startswith("~"):
        return any(re.search(spelling[1:], text) for text in texts)
    if spelling.startswith("--"):
        return any(text == spelling or text.startswith(spelling + "=") for text in texts)
    if len(spelling) == 2 and spelling[0] == "-" and spelling[1].isalpha():
        letter = spelling[1]
        return any(text[:1] == "-" and text[:2] != "--" and letter in text[1:] for text in texts)
    return spelling in texts


def _may_be_verb(texts: Sequence[str]) -> bool:
    """Whether a computed word may be the verb: only options and their values come before it."""
    before = ["-", *texts[: texts.index(ANY)]]
    return all(text[:1] in "-+" or last[:1] == "-" for last, text in pairwise(before))


def _is_everything(place: str, text: str, glob: bool) -> bool:
    """Whether this is the directory that the work is in, one above it, or all that is in one of these."""
    if not text or text.startswith(("/", "~", "-")):
        return text in ("~", "~/")
    if place.startswith(("/", "~")):
        return False
    names = [name for name in posixpath.normpath(posixpath.join(place, text)).split("/") if name]
    if glob:
        while names and not names[-1].strip("*.?[]!^"):
            names.pop()
    return all(name in (".", "..") for name in names)
