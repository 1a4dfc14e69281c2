"""Commands read the settings of the machine in `/proc`, and write none of them, whoever runs them."""

from __future__ import annotations

import json

import pytest

from tests.shell.boundaries import MakeBoundary, World, python

_WAYS = ["/proc", "/proc/self/root/proc", "/proc/thread-self/root/proc", "/proc/1/root/proc", "/proc/self/../../proc"]
_TRY = """
import json, os
opened = []
readable = 0
try:
    tops = os.listdir({way!r})
except OSError:  # the root of another process may be out of reach
    tops = []
for top in tops:
    if top.isdecimal() or top in ("self", "thread-self", "net", "mounts"):
        continue
    place = os.path.join({way!r}, top)
    files = [place] if not os.path.isdir(place) else []
    for above, _, names in os.walk(place):
        files += [os.path.join(above, name) for name in names]
    for path in files:
        try:
            if not os.lstat(path).st_mode & 0o222:
                continue
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))  # opened, and never written to
        except OSError:
            readable += os.access(path, os.R_OK)
        else:
            opened.append(path)
print(json.dumps([opened[:20], readable]))
"""


@pytest.mark.parametrize("way", _WAYS)
def test_no_setting_of_the_machine_can_be_opened_for_writing(
    make_boundary: MakeBoundary, world: World, way: str
) -> None:
    opened, readable = json.loads(python(make_boundary(), _TRY.format(way=way), world.work))
    assert opened == []
    assert readable or way.startswith("/proc/1/")


def test_settings_of_the_machine_can_be_read(make_boundary: MakeBoundary, world: World) -> None:
    answer = python(make_boundary(), "print(open('/proc/sys/kernel/ostype').read().strip())", world.work)
    assert answer == "Linux\n"
