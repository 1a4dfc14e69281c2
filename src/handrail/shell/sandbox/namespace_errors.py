"""Why namespaces cannot be used on a machine, and what a person can do about it."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable

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


_USER_NAMESPACE = ("unshare", "setgroups", "uid_map", "gid_map")
_REFUSED = (errno.EPERM, errno.EACCES)
_BY_STEP: dict[tuple[str, int], tuple[str, str]] = {
    **dict.fromkeys(
        ((step, errno.ENOSPC) for step in _USER_NAMESPACE),
        ("the limit of user namespaces is reached, or is 0", "sysctl user.max_user_namespaces=15000"),
    ),
    **dict.fromkeys(
        ((step, errno.EINVAL) for step in _USER_NAMESPACE),
        (
            "the kernel has no user namespaces, or this process stands in a chroot",
            "a kernel with CONFIG_USER_NS, and a start outside of the chroot",
        ),
    ),
    **dict.fromkeys(
        ((step, number) for step in _USER_NAMESPACE for number in _REFUSED),
        (
            "new namespaces are refused here, as in a container or inside another sandbox",
            "in Docker: --security-opt seccomp=unconfined, or a profile that allows unshare and mount",
        ),
    ),
    ("proc", errno.EPERM): (
        "/proc is partly covered here, as in a container, so that no new one can be mounted",
        "in Docker: --security-opt systempaths=unconfined",
    ),
    ("pivot_root", errno.EINVAL): (
        "the root directory is the initial one of the kernel",
        "a system that starts from a disk",
    ),
}
"""Why a step of the set-up fails with an error, and what helps."""
_BY_APPARMOR = (
    "AppArmor keeps programs of ordinary users from using user namespaces",
    "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile that allows userns",
)
_BY_DEBIAN = ("the kernel lets only root create user namespaces", "sysctl kernel.unprivileged_userns_clone=1")


def explain(error: SetUpFailed, read: Callable[[str], str] | None = None) -> NoNamespaces:
    """The reason behind a step of the set-up that failed. ``read``: returns the value of a setting of the kernel."""
    step, number, read = error.step, error.errno or 0, read or _read_value
    if number in _REFUSED and step != "proc" and read(_APPARMOR) == "1":
        return NoNamespaces(*_BY_APPARMOR)
    if number == errno.EPERM and step in _USER_NAMESPACE and read(_DEBIAN) == "0":
        return NoNamespaces(*_BY_DEBIAN)
    if number == errno.ENOSYS:
        return NoNamespaces(f"the kernel does not know {step}", "Linux 5.12 or later")
    return NoNamespaces(*_BY_STEP.get((step, number), (str(error.strerror), "")))


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
