"""Writes `boxoffice/_async` from `boxoffice/_sync`: the two differ in words alone. `--check` says whether it is up to date."""

from __future__ import annotations

import re
import sys
from pathlib import Path

SYNC = Path(__file__).parent / "src/boxoffice/_sync"
ASYNC = SYNC.with_name("_async")

WORDS = [
    (r"The blocking client\. .* of it\.", "The asynchronous client, written by `write_async.py`."),
    (r"^import threading\n", "import asyncio\n"),
    (r"^import time\n", "import asyncio\n"),
    (r"Callable, Iterator", "AsyncIterator, Callable"),
    (r"^from collections\.abc import Iterator\n", "from collections.abc import AsyncIterator\n"),
    (r"-> Iterator\[", "-> AsyncIterator["),
    (
        r"from websockets\.exceptions import WebSocketException\nfrom websockets\.sync\.client import connect\n",
        "from websockets.asyncio.client import connect\nfrom websockets.exceptions import WebSocketException\n",
    ),
    (r"httpx\.(HTTPTransport|Client)\b", r"httpx.Async\1"),
    (r"time\.sleep\(", "await asyncio.sleep("),
    (r"= connect\(", "= await connect("),
    (r"(?<= )connection\.close\(\)", "await connection.close()"),
    (r"effect\.socket\.recv\(timeout=(min\(.*?\))\)", r"await asyncio.wait_for(effect.socket.recv(), \1)"),
    (r"except TimeoutError:", "except (TimeoutError, asyncio.TimeoutError):"),
    (r"return effect\.socket\.", "return await effect.socket."),
    (r"self\._perform\(effect\)", "await self._perform(effect)"),
    (r"self\.http\.(request|send)\(", r"await self.http.\1("),
    (r"self\._exchange\(effect\)", "await self._exchange(effect)"),
    (r"next\(effect\.", "await anext(effect."),
    (r"return effect\.listened\.answer\.close\(", "return await effect.listened.answer.aclose("),
    (r"answer\.iter_bytes\(", "answer.aiter_bytes("),
    (r"(^ +)answer\.(read|close)\(", r"\1await answer.a\2("),
    (r"(?<![\w.])driver\.run\(", "await driver.run("),
    (r"threading\.Lock", "asyncio.Lock"),
    (r"with self\._(pumping|writing)", r"async with self._\1"),
    (r"One thread may", "One task may"),
    (r"threads may share", "tasks may share"),
    (r"__(iter|enter|exit)__", r"__a\1__"),
    (r"for _ in self", "async for _ in self"),
    (r"(?<!def )self\._driver\.http\.close\(\)", "await self._driver.http.aclose()"),
    (r"(self\._driver(\.within\(request_timeout\))?\.run\()", r"await \1"),
    (r"self\._pump\(", "await self._pump("),
    (r"(self\.read\(.*\))\.decode", r"(await \1).decode"),
    (r"(self\.(signal|wait|detach|release|close)\()(?=\)|\"KILL\")", r"await \1"),
    (r"(Run\(self\._driver.*\)\.open\(\))", r"await \1"),
    (r"(?<![A-Za-z_.])(Run|Files|Commands|Processes|Session|Client)(?![A-Za-z_])(?=[:(\",\n\]]| is)", r"Async\1"),
]
PLAIN = r"__init__|within|id|pid|exit|sandbox_id|info|mode|expires_at"


def asynchronous(text: str) -> str:
    """The asynchronous words of a file."""
    for words, others in WORDS:
        text = re.sub(words, others, text, flags=re.MULTILINE)
    return re.sub(rf"^(    )def (?!(?:{PLAIN})\()", r"\1async def ", text, flags=re.MULTILINE)


def main() -> int:
    """Writes, or with `--check` compares."""
    ASYNC.mkdir(exist_ok=True)
    stale = []
    for source in sorted(SYNC.glob("*.py")):
        target, text = ASYNC / source.name, asynchronous(source.read_text())
        if "--check" not in sys.argv:
            target.write_text(text)
        elif not target.exists() or re.sub(r"\s", "", target.read_text()) != re.sub(r"\s", "", text):
            stale.append(target.name)
    if stale:
        print(f"stale: {', '.join(stale)}; run write_async.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
