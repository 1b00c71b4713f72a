"""Time, as an effect that tests can replace."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Clock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Wall time, UTC."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
