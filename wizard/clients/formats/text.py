"""A file's text apart from its byte-order mark, and the line ends that it uses."""

from __future__ import annotations

from dataclasses import dataclass

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class FileText:
    """Decoded UTF-8. `newline` is the line end that most lines have; `\\n` where there is none."""

    text: str
    bom: bool
    newline: str

    def encode(self, text: str, errors: str = "strict") -> bytes:
        """Another text for the same file, with the same mark."""
        return (_BOM if self.bom else b"") + text.encode("utf-8", errors)


def decode(raw: bytes, errors: str = "strict") -> FileText:
    """The text of a file; raises UnicodeDecodeError where it is not UTF-8 and `errors` does not say otherwise."""
    bom = raw.startswith(_BOM)
    text = (raw[3:] if bom else raw).decode("utf-8", errors)
    windows = text.count("\r\n")
    return FileText(text, bom, "\r\n" if windows * 2 > text.count("\n") else "\n")


def line_of(text: str, position: int) -> int:
    """The line number, from 1."""
    return text.count("\n", 0, position) + 1
