"""A deep agent on two threads at once, with a fake model: anyone can run it. Each thread has a sandbox of its own.

    BOXOFFICE_URL=http://127.0.0.1:7070 BOXOFFICE_API_KEY=bxo_… python two_threads.py

Between its two turns it waits for a line, so that you can restart the broker.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from boxoffice import Client
from deepagents import create_deep_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from langchain_boxoffice import BoxofficeSandbox

TURNS = {
    "count": [
        ("write_file", {"file_path": "/workspace/count.sh", "content": 'for n in 1 2 3; do echo "$1 $n"; done > result.txt\n'}),
        ("execute", {"command": "sh count.sh {word}"}),
        ("read_file", {"file_path": "/workspace/result.txt"}),
    ],
    "again": [("execute", {"command": "tail -n 1 result.txt"})],
}


class ScriptedModel(BaseChatModel):
    """Calls the tools of its turn one after the other, then repeats what the last one gave."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> ScriptedModel:
        """The script knows its tools."""
        return self

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        asked = max(index for index, message in enumerate(messages) if isinstance(message, HumanMessage))
        turn, word = str(messages[asked].content).split()
        results = [message for message in messages[asked:] if isinstance(message, ToolMessage)]
        script = TURNS[turn]
        if len(results) == len(script):
            return ChatResult(generations=[ChatGeneration(message=AIMessage(str(results[-1].content)))])
        name, arguments = script[len(results)]
        filled = {key: value.replace("{word}", word) for key, value in arguments.items()}
        call = {"name": name, "args": filled, "id": f"{turn}-{len(results)}", "type": "tool_call"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[call]))])


async def main() -> None:
    """Two turns on two threads."""
    with Client(os.environ["BOXOFFICE_URL"], api_key=os.environ["BOXOFFICE_API_KEY"], reconnect_window=120) as client:
        sandbox = BoxofficeSandbox.for_threads(client)
        agent = create_deep_agent(model=ScriptedModel(), backend=sandbox, checkpointer=InMemorySaver())

        async def ask(thread_id: str, turn: str) -> None:
            state = await agent.ainvoke(
                {"messages": [HumanMessage(f"{turn} {thread_id}")]}, config={"configurable": {"thread_id": thread_id}}
            )
            print(f"{thread_id}: {state['messages'][-1].content}", flush=True)

        try:
            await asyncio.gather(ask("red", "count"), ask("blue", "count"))
            print("restart the broker now if you like, then press Enter", flush=True)
            await asyncio.to_thread(input)
            await asyncio.gather(ask("red", "again"), ask("blue", "again"))
        finally:
            for thread_id in ("red", "blue"):
                client.session(thread_id).release()


if __name__ == "__main__":
    asyncio.run(main())
