"""Run a command in an overlay of a workspace: `enter.py WORKSPACE UPPER WORK COMMAND...`, in namespaces of its own."""

import ctypes
import os
import sys

NEW_MOUNTS, NEW_USERS = 0x20000, 0x10000000
PRIVATE, RECURSIVE = 1 << 18, 16384
libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def enter(workspace: str, upper: str, work: str) -> None:
    """Show this process an overlay in the place of a workspace."""
    enter_namespaces()
    mount_overlay(workspace, workspace, upper, work)
    os.chdir(workspace)


def enter_namespaces() -> None:
    """Give this process mounts of its own."""
    user, group = os.getuid(), os.getgid()
    if user == 0:
        check(libc.unshare(NEW_MOUNTS), "unshare")
    else:
        check(libc.unshare(NEW_MOUNTS | NEW_USERS), "unshare")
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", f"{user} {user} 1")
        write("/proc/self/gid_map", f"{group} {group} 1")
    check(libc.mount(b"none", b"/", None, PRIVATE | RECURSIVE, None), "make mounts private")


def mount_overlay(target: str, lower: str, upper: str, work: str) -> None:
    options = f"lowerdir={lower},upperdir={upper},workdir={work},userxattr"
    check(libc.mount(b"overlay", os.fsencode(target), b"overlay", 0, os.fsencode(options)), "mount overlay")


def unmount(target: str) -> None:
    check(libc.umount2(os.fsencode(target), 2), "unmount")


if __name__ == "__main__":
    enter(*sys.argv[1:4])
    os.execvp(sys.argv[4], sys.argv[4:])
