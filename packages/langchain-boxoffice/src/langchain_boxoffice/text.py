"""Pages and edits of text: no I/O."""

from __future__ import annotations

import base64
import codecs

from deepagents.backends.protocol import EditResult, FileData, ReadResult
from deepagents.backends.sandbox import MAX_BINARY_BYTES, MAX_OUTPUT_BYTES, TRUNCATION_MSG
from deepagents.backends.utils import _get_backend_read_file_type, normalize_read_bounds

EMPTY = "System reminder: File exists but has empty contents"
SNIFFED_BYTES = 8192


def page_of(content: bytes, path: str, offset: int, limit: int) -> ReadResult:
    """The lines that `read` gives, or the whole of a binary file in base64."""
    offset, limit = normalize_read_bounds(offset, limit)
    if not content:
        return ReadResult(file_data=FileData(content=EMPTY, encoding="utf-8"))
    if _get_backend_read_file_type(path) != "text" or not _is_text(content):
        if len(content) > MAX_BINARY_BYTES:
            return ReadResult(error=f"File '{path}': Binary file exceeds maximum preview size of {MAX_BINARY_BYTES} bytes")
        return ReadResult(file_data=FileData(content=base64.b64encode(content).decode(), encoding="base64"))
    if limit == 0:
        return ReadResult(file_data=FileData(content="", encoding="utf-8"), no_lines_requested=True)
    lines = _lines_of(content.decode("utf-8", "replace"))
    chosen = lines[offset : offset + limit]
    if not chosen:
        return ReadResult(error=f"File '{path}': Line offset {offset} exceeds file length ({len(lines)} lines)")
    text, whole = _within(chosen, MAX_OUTPUT_BYTES - len(TRUNCATION_MSG.encode()))
    # A line that alone is too long counts as shown, so that reading goes on behind it.
    end = offset + max(1, whole)
    return ReadResult(
        file_data=FileData(content=text, encoding="utf-8"),
        total_lines=len(lines),
        start_line=offset + 1,
        end_line=end,
        next_offset=end if end < len(lines) else None,
    )


def edit_of(content: bytes, path: str, old: str, new: str, replace_all: bool) -> tuple[bytes, EditResult]:
    """The content after an edit, and what is told of it. `read` shows LF alone, so CRLF is tried as well, and kept."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return content, EditResult(error=f"Error: File '{path}' is not a text file")
    for ending in ("", "\r\n", "\n"):
        wanted, other = (_ended(old, ending), _ended(new, ending)) if ending else (old, new)
        count = text.count(wanted)
        if count > 1 and not replace_all:
            message = f"Error: String '{old}' appears multiple times. Use replace_all=True to replace all occurrences."
            return content, EditResult(error=message)
        if count > 0:
            return text.replace(wanted, other).encode(), EditResult(path=path, occurrences=count)
    return content, EditResult(error=f"Error: String not found in file: '{old}'")


def _is_text(content: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(content[:SNIFFED_BYTES], final=False)
    except UnicodeDecodeError:
        return False
    return True


def _lines_of(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _within(lines: list[str], limit: int) -> tuple[str, int]:
    """The lines that fit, joined, and how many of them are whole."""
    size = 0
    for whole, line in enumerate(lines):
        separator = 1 if whole else 0
        needed = len(line.encode()) + separator
        if size + needed > limit:
            cut = line.encode()[: max(0, limit - size - separator)].decode("utf-8", "ignore")
            return "\n".join([*lines[:whole], *([cut] if cut else [])]) + TRUNCATION_MSG, whole
        size += needed
    return "\n".join(lines), len(lines)


def _ended(text: str, ending: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", ending)
