"""A sandbox without a file system of its own."""

from __future__ import annotations

import uuid

from boxoffice import Client

from langchain_boxoffice import BoxofficeSandbox


def test_the_workspace_is_there_and_nothing_else_ends_the_run(client: Client) -> None:
    with client.session(f"none-{uuid.uuid4().hex}") as session:
        assert session.info["binding"]["isolation"] == "none"
        sandbox = BoxofficeSandbox(session)
        assert sandbox.write("/workspace/a/.b", "one\n").error is None
        assert sandbox.edit("/app/a/.b", "one", "two").occurrences == 1
        assert sandbox.execute("cat a/.b").output == "two\n"
        assert sandbox.download_files(["/a/.b"])[0].content == b"two\n"
        assert [entry["path"] for entry in sandbox.ls("/workspace").entries or []] == ["/workspace/a"]
        assert [entry["path"] for entry in sandbox.ls("/workspace/a").entries or []] == ["/workspace/a/.b"]
        for path in ("/workspace", "/workspace/a"):
            assert [info["path"] for info in sandbox.glob("**/.b", path).matches or []] == ["/workspace/a/.b"]
            assert [match["path"] for match in sandbox.grep("two", path).matches or []] == ["/workspace/a/.b"]
        assert "UNSUPPORTED" in str(sandbox.read("/tmp/x").error)
        assert "UNSUPPORTED" in str(sandbox.write("/tmp/x", "").error)
        assert "UNSUPPORTED" in str(sandbox.ls("/").error)
        assert sandbox.delete("/workspace/a").error is None
        assert sandbox.read("/workspace/a/.b").error == "File '/workspace/a/.b': file_not_found"
