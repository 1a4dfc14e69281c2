"""Runs on another machine that has Python and no Handrail: takes a bundle over stdin, keeps it, and starts it.

This file is sent as the argument of `python3 -c`, so that it uses the standard library alone and imports nothing of
Handrail. The bundle is kept under its hash in a directory of the user's own. Each start checks the hash, and compares
every file with the bundle before one of them is run.
"""

import hashlib
import json
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
import time
import zipfile

_OLD_SECONDS = 30 * 24 * 3600


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - it is sent to any Python
        sys.exit(f"Handrail needs Python 3.11 or newer, and {sys.executable} is {platform.python_version()}")
    facts = {"abi": sysconfig.get_config_var("SOABI"), "libc": platform.libc_ver()[0], "machine": platform.machine()}
    os.write(1, b"\0handrail-loader-1 " + json.dumps(facts).encode("ascii") + b"\n")
    digest, size = read_line().split()
    folder = open_cache()
    place = os.path.join(folder, f"{digest}-{sys.version_info.major}.{sys.version_info.minor}")
    if is_whole(place, digest):
        os.write(1, b"have\n")
    else:
        os.write(1, b"send\n")
        install(place, take(int(size), digest))
    os.utime(place)
    python = os.path.join(place, "bin", "python")
    os.execv(python, [python, "-P", "-m", "handrail", *sys.argv[1:]])  # noqa: S606 - the server


def read_line() -> str:
    line = b""
    while not line.endswith(b"\n") and len(line) < 200:
        line += os.read(0, 1) or sys.exit("the connection was closed")
    return line.decode("ascii")


def take(size: int, digest: str) -> bytes:
    data = bytearray()
    while len(data) < size:
        data += os.read(0, min(1 << 16, size - len(data))) or sys.exit("the connection was closed")
    if hashlib.sha256(data).hexdigest() != digest:
        sys.exit("the bundle was damaged on its way")
    return bytes(data)


def open_cache() -> str:
    """A directory that only this user can write to; raises `SystemExit` if there is none."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for base in (os.path.join(home, "handrail"), os.path.join(tempfile.gettempdir(), f"handrail-{os.getuid()}")):
        folder = os.path.join(base, "bundles")
        try:
            os.makedirs(base, mode=0o700, exist_ok=True)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            states = [os.lstat(base), os.lstat(folder)]
        except OSError:
            continue
        if all(one.st_uid == os.getuid() and not one.st_mode & 0o022 for one in states) and os.access(folder, os.W_OK):
            os.chmod(folder, 0o700)
            return folder
    sys.exit("there is no directory to keep Handrail in: neither ~/.cache nor the directory for temporary files")


def is_whole(place: str, digest: str) -> bool:
    """Whether the bundle has its hash, and every file in its place is that of the bundle."""
    try:
        with open(os.path.join(place, "bundle.zip"), "rb") as file:
            if hashlib.sha256(file.read()).hexdigest() != digest:
                return False
        with zipfile.ZipFile(os.path.join(place, "bundle.zip")) as bundle:
            for name in bundle.namelist():
                with open(os.path.join(place, find_name(name)), "rb") as file:
                    if file.read() != bundle.read(name):
                        return False
    except (OSError, zipfile.BadZipFile):
        return False
    return True


def find_name(name: str) -> str:
    """Where a file of a bundle belongs: `site/` is the directory for packages."""
    kind, _, rest = name.partition("/")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return os.path.join("lib", version, "site-packages", rest) if kind == "site" else name


def install(place: str, data: bytes) -> None:
    """Unpack a bundle beside its place as a virtual environment without pip, and rename it there in one step."""
    folder = os.path.dirname(place)
    begun = tempfile.mkdtemp(prefix="begun-", dir=folder)
    with open(os.path.join(begun, "bundle.zip"), "wb") as file:
        file.write(data)
    with zipfile.ZipFile(os.path.join(begun, "bundle.zip")) as bundle:
        for name in bundle.namelist():
            path = os.path.join(begun, find_name(name))
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(path, "wb") as file:
                file.write(bundle.read(name))
            if name.startswith("bin/"):
                os.chmod(path, 0o700)
    os.makedirs(os.path.join(begun, "bin"), mode=0o700, exist_ok=True)
    program = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    os.symlink(program, os.path.join(begun, "bin", "python"))
    with open(os.path.join(begun, "pyvenv.cfg"), "w", encoding="utf-8") as file:
        file.write(f"home = {os.path.dirname(program)}\ninclude-system-site-packages = false\n")
    if os.path.lexists(place):  # it is damaged
        os.rename(place, f"{begun}-old")
    os.rename(begun, place)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if "-old" in name or os.lstat(path).st_mtime < time.time() - _OLD_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main()
