"""Confine commands: namespaces, Landlock, seccomp and a clean environment. Start reading at `choose.py`."""

from __future__ import annotations

from typing import Literal

Mode = Literal["auto", "namespaces", "landlock", "off"]
"""Which kind of sandbox is wanted."""
Network = Literal["off", "loopback", "on"]
"""Which network a command gets."""
