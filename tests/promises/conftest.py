"""How the promise tests report their figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def figure(record_property: Callable[[str, Any], None], request: pytest.FixtureRequest) -> Callable[..., None]:
    """`figure(points=120, torn=0)`: goes into the JUnit report, and is printed (seen with `-rP` or `-s`)."""

    def report(**counts: Any) -> None:
        for name, value in counts.items():
            record_property(name, value)
        print(f"{request.node.name}: " + ", ".join(f"{name}={value}" for name, value in counts.items()))

    return report
