"""What `glob` and `grep` find: no I/O."""

from __future__ import annotations

from collections.abc import Callable

from boxoffice import ExecResult, Listing
from deepagents.backends.protocol import FileInfo, GlobResult, GrepMatch, GrepResult
from deepagents.backends.utils import compile_grep_include_glob

from .paths import join

Matcher = Callable[[str], bool]


def glob_matcher(pattern: str) -> Matcher:
    """The matcher that all backends share. Raises ValueError for a pattern that it refuses."""
    return compile_grep_include_glob(pattern)


def found(listing: Listing, matches: Matcher, *, base: str, shown: str, relative: bool) -> GlobResult:
    """The entries of a listing of `base` that match. Paths begin with `shown`, as the caller wrote it, unless they are `relative`."""
    infos: list[FileInfo] = []
    for entry in listing.entries:
        name = below(entry.path, base)
        if matches(name):
            path = name if relative else join(shown, name)
            infos.append({"path": path, "is_dir": entry.type == "directory", "size": entry.size, "modified_at": entry.mtime})
    return GlobResult(matches=infos, truncated=listing.truncated, truncation_reason="budget" if listing.truncated else None)


def below(path: str, base: str) -> str:
    """A path that lies below `base`, without it."""
    return path[len(base) :].lstrip("/") if path.startswith(base) else path.lstrip("/")


def grep_command(pattern: str, base: str, excluded: tuple[str, ...]) -> list[str]:
    """GNU grep, literal and recursive; NUL ends the file name. A search of an excluded directory itself still searches it."""
    own = base.rstrip("/").rsplit("/", 1)[-1]
    return ["grep", "-rHnFZ", *(f"--exclude-dir={name}" for name in excluded if name != own), "-e", pattern, "--", base]


def grepped(result: ExecResult, matches: Matcher | None, *, base: str, shown: str, most: int | None) -> GrepResult:
    """The matches of grep's output, of files that `matches` takes."""
    if result.timed_out:
        return GrepResult(error=f"Error: grep timed out after {result.timeout_seconds:g}s. Try a more specific pattern or a narrower path.")
    if result.exit_code > 1 and not result.stdout:
        return GrepResult(error=f"Path '{shown}': {result.stderr.strip() or result.reason}")
    found_lines: list[GrepMatch] = []
    for line in result.stdout.split("\n"):
        path, separator, rest = line.partition("\0")
        number, colon, text = rest.partition(":")
        # What has no NUL is grep's own word, as that a binary file matches.
        if not separator or not colon or not number.isdigit():
            continue
        name = below(path, base)
        if matches is not None and not matches(name or path):
            continue
        if most is not None and len(found_lines) == most:
            return GrepResult(matches=found_lines, truncated=True)
        found_lines.append({"path": join(shown, name) if name else shown, "line": int(number), "text": text})
    return GrepResult(matches=found_lines, truncated=result.stdout_truncated)
