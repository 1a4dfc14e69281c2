"""Why namespaces cannot be used on a machine, and what a person can do about it."""

from __future__ import annotations

import contextlib
import errno
from dataclasses import dataclass

from handrail.drafts.store import NoDraft
from handrail.shell.sandbox.launcher_client import SetUpFailed

_APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_DEBIAN = "/proc/sys/kernel/unprivileged_userns_clone"


class NoNamespaces(OSError):
    """Namespaces cannot be used here; `fix` says what would help."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(f"namespaces: {why}")
        self.why = why
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Switches:
    """Settings of the kernel that forbid user namespaces."""

    apparmor: bool = False
    debian: bool = False

    @classmethod
    def read(cls) -> Switches:
        return cls(_read_value(_APPARMOR) == "1", _read_value(_DEBIAN) == "0")


def explain(error: SetUpFailed, switches: Switches | None = None) -> NoNamespaces:
    """The reason behind a step of the set-up that failed."""
    current = Switches.read() if switches is None else switches
    step, number = error.step, error.errno or 0
    user_namespace = step in ("unshare", "setgroups", "uid_map", "gid_map")
    if number in (errno.EPERM, errno.EACCES) and current.apparmor and step != "proc":
        return NoNamespaces(
            "AppArmor keeps programs of ordinary users from using user namespaces",
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile that allows userns",
        )
    if user_namespace and number == errno.EPERM and current.debian:
        return NoNamespaces(
            "the kernel lets only root create user namespaces", "sysctl kernel.unprivileged_userns_clone=1"
        )
    if user_namespace and number == errno.ENOSPC:
        return NoNamespaces("the limit of user namespaces is reached, or is 0", "sysctl user.max_user_namespaces=15000")
    if user_namespace and number == errno.EINVAL:
        return NoNamespaces(
            "the kernel has no user namespaces, or this process stands in a chroot",
            "a kernel with CONFIG_USER_NS, and a start outside of the chroot",
        )
    if user_namespace and number in (errno.EPERM, errno.EACCES):
        return NoNamespaces(
            "new namespaces are refused here, as in a container or inside another sandbox",
            "in Docker: --security-opt seccomp=unconfined, or a profile that allows unshare and mount",
        )
    if step == "proc" and number == errno.EPERM:
        return NoNamespaces(
            "/proc is partly covered here, as in a container, so that no new one can be mounted",
            "in Docker: --security-opt systempaths=unconfined",
        )
    if number == errno.ENOSYS:
        return NoNamespaces(f"the kernel does not know {step}", "Linux 5.12 or later")
    if step == "pivot_root" and number == errno.EINVAL:
        return NoNamespaces("the root directory is the initial one of the kernel", "a system that starts from a disk")
    return NoNamespaces(str(error.strerror), "")


_OVERLAY = {
    errno.EPERM: "the kernel lets only root mount overlays; users may since Linux 5.11",
    errno.EACCES: "a security module, such as SELinux or AppArmor, forbids overlays",
    errno.EINVAL: "the file system of the workspace cannot be a layer of an overlay",
    errno.ENODEV: "the kernel has no overlayfs",
    errno.ENOSPC: "the limit of mounts is reached, or the disk of the workspace is full",
    errno.ELOOP: "the workspace lies on too many overlays already",
}


def explain_draft(error: SetUpFailed, workspace: str) -> NoDraft:
    """The reason why a command could not be put into a draft."""
    why = _OVERLAY.get(error.errno or 0) if error.step == "overlay" else None
    return NoDraft(error.errno, why or explain(error).why, workspace)


def _read_value(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
        return file.read().strip()
    return ""
