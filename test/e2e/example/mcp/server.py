"""A stdio MCP server without an SDK. With `--greeting` it needs the package of that name; its tools end it or keep it busy."""

import json
import sys
import time

TOOLS = ["greet", "exit", "fail", "wait"]


def call(name):
    if name == "exit":
        sys.exit(3)
    if name == "fail":
        raise ValueError("as it was asked to")
    if name == "wait":
        time.sleep(600)
    if "--greeting" in sys.argv:
        import greeting

        return greeting.TEXT
    return "hello"


def answer(message):
    method = message["method"]
    if method == "initialize":
        info = {"name": "example", "version": "1.0.0"}
        return {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": call(message["params"]["name"])}]}
    return {}


if "--greeting" in sys.argv:
    import greeting  # noqa: F401 - a server that lacks what it needs does not start

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    try:
        reply = {"result": answer(message)}
    except ValueError as error:
        reply = {"error": {"code": -32000, "message": str(error)}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
