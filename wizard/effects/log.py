"""Our own log file. Secrets are redacted here, at the layer that writes, so that no caller can forget to."""

from __future__ import annotations

import logging
import logging.handlers
from pathlib import Path

from wizard.effects.files import PRIVATE_MODE, make_file, make_folders
from wizard.secret import redact

LOGGER_NAME = "llm-setup"
_MAX_BYTES = 1_000_000


class RedactingFormatter(logging.Formatter):
    """Formats as usual, exceptions included, then removes keys from the whole text."""

    def format(self, record: logging.LogRecord) -> str:
        """The line without secrets."""
        return redact(super().format(record))


class _LateFile(logging.handlers.RotatingFileHandler):
    """Makes its folder and file at the first line only: commands that write nothing leave nothing."""

    def _open(self):  # type: ignore[no-untyped-def]
        path = Path(self.baseFilename)
        make_folders(path.parent)
        make_file(path, PRIVATE_MODE)
        return super()._open()

    def handleError(self, record: logging.LogRecord) -> None:
        """A log that cannot be written (full disk, read-only home) must not end the command."""


def close_log() -> None:
    """Close the file, where one was opened."""
    logger = logging.getLogger(LOGGER_NAME)
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()


def open_log(folder: Path) -> Path:
    """Send our log to `llm-setup.log` in the folder; returns the file's path. Nothing is made before the first line."""
    path = folder / "llm-setup.log"
    handler = _LateFile(path, maxBytes=_MAX_BYTES, backupCount=2, encoding="utf-8", delay=True)
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(message)s"))
    close_log()
    logger = logging.getLogger(LOGGER_NAME)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return path
