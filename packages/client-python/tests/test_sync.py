"""Negotiate, commands, files, errors: the blocking client."""

from __future__ import annotations

import io
import tarfile
import time

import pytest

from boxoffice import (
    AccessDeniedError,
    AuthenticationError,
    Client,
    CommandError,
    ConflictError,
    ConnectionFailedError,
    FileError,
    InvalidRequestError,
    NotFoundError,
    Session,
)
from boxoffice._sync.driver import Driver
from boxoffice._wire.effects import Effect, Http, Unreachable


def test_negotiate(client: Client, session: Session, thread_id: str) -> None:
    assert client.session(thread_id, mode="get").id == session.id
    assert session.info["thread_id"] == thread_id
    assert "token" not in session.info
    assert session.id in [binding["id"] for binding in client.sessions()]
    assert session.heartbeat()["binding"]["id"] == session.id


def test_get_of_none_is_not_found(client: Client) -> None:
    with pytest.raises(NotFoundError) as caught:
        client.session("python-nobody", mode="get")
    assert caught.value.is_code("SESSION_NOT_FOUND")
    assert caught.value.is_code("BINDING_NOT_FOUND")


def test_a_wrong_key_is_refused_and_not_shown(client: Client) -> None:
    with Client(client._broker.url, api_key="bxo_" + "x" * 43) as other, pytest.raises(AuthenticationError) as caught:
        other.session("python-wrong")
    assert "xxx" not in str(caught.value)


def test_exec(session: Session) -> None:
    result = session.exec("echo out; echo err >&2; exit 42")
    assert (result.exit_code, result.stdout, result.stderr, result.reason) == (42, "out\n", "err\n", "exited")
    with pytest.raises(CommandError) as caught:
        result.check()
    assert caught.value.result is result
    assert session.exec(["printf", "%s", "a b"]).check().stdout == "a b"
    assert session.exec("cat", stdin=b"\x00\x01").stdout_bytes == 2
    assert session.exec("echo $NAME; pwd", env={"NAME": "value"}, cwd="/tmp").stdout == "value\n/tmp\n"


def test_exec_times_out_with_124(session: Session) -> None:
    result = session.exec("sleep 60", timeout=1)
    assert (result.exit_code, result.timed_out) == (124, True)


def test_exec_runs_once_under_its_id(session: Session) -> None:
    first = session.exec("echo x >> log; cat log", exec_id="once")
    assert session.exec("echo x >> log; cat log", exec_id="once").stdout == first.stdout == "x\n"
    assert "once" in [entry.exec_id for entry in session.commands.list()]


def test_commands_by_their_ids(session: Session) -> None:
    run = session.start("printf one; read -r line; printf two; exit 3", exec_id="known")
    first = session.commands.output("known", wait_seconds=30)
    assert (first.text, first.offset, first.ended) == ("one", 0, False)
    running = session.commands.get("known")
    assert (running.state, running.kind, running.attached, running.result) == ("running", "exec", 1, None)
    assert [info.exec_id for info in session.commands.list(state="running")] == ["known"]
    run.write("go\n")
    assert run.wait().exit_code == 3
    rest = session.commands.output("known", offset=first.next_offset, wait_seconds=30)
    assert (rest.text, rest.next_offset, rest.ended) == ("two", 6, True)
    ended = session.commands.get("known")
    assert ended.result is not None
    assert (ended.exit_code, ended.result.stdout) == (3, "onetwo")
    assert ended.ended_at is not None
    assert ended.started_at <= ended.ended_at
    with pytest.raises(NotFoundError):
        session.commands.get("unknown")


def test_commands_are_killed_by_their_ids(session: Session) -> None:
    run = session.start("sleep 600", detach=True)
    run.detach()
    assert session.commands.kill(run.id) is True
    assert session.attach(run.id).wait().signal == "SIGTERM"
    assert session.commands.kill(run.id) is False


def test_processes(session: Session) -> None:
    started = session.processes.start(
        "sh", ["-c", "echo $NAME >&2; exec sleep 600"], process_id="server", env={"NAME": "value"}, cwd="/tmp"
    )
    assert (started.process_id, started.status, started.cwd, list(started.env_keys)) == ("server", "running", "/tmp", ["NAME"])
    with pytest.raises(ConflictError):
        session.processes.start("sleep", ["600"], process_id="server")
    assert [info.process_id for info in session.processes.list()] == ["server"]
    while session.processes.get("server").stderr_preview != "value\n":
        time.sleep(0.05)
    session.processes.stop("server")
    ended = session.processes.get("server")
    assert (ended.status, ended.signal, ended.stderr_preview) == ("exited", "SIGTERM", "value\n")
    assert ended.exited_at is not None
    assert session.processes.start("/no/such/program").status == "exited"
    session.processes.stop("unknown")
    with pytest.raises(NotFoundError):
        session.processes.get("unknown")


def test_unknown_options_are_refused(client: Client, session: Session) -> None:
    with pytest.raises(TypeError, match="timeout_seconds"):
        session.exec("true", timeout_seconds=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="capabilites"):
        client.session("python-misspelt", capabilites=["fs_read"])  # type: ignore[call-arg]


def test_files(session: Session) -> None:
    content = bytes(range(256)) * 4096
    session.files.write("deep/er/ü.bin", content)
    assert session.files.read("deep/er/ü.bin") == content
    session.files.write("/tmp/abs.txt", "text", root="sandbox")
    assert session.exec("cat /tmp/abs.txt").stdout == "text"
    assert session.files.stat("deep/er/ü.bin").size == len(content)
    assert [entry.path for entry in session.files.list("deep").entries] == ["deep/er", "deep/er/ü.bin"]
    session.files.move("deep/er/ü.bin", "moved")
    assert not session.files.exists("deep/er/ü.bin")
    session.files.delete("deep", recursive=True)
    assert session.files.mkdir("deep") is True
    assert session.files.mkdir("deep") is False


def archive_of(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(content), 0o755
        archive.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, name
        archive.addfile(link)
    return packed.getvalue()


def test_archives(session: Session) -> None:
    content = bytes(range(256)) * 4096
    assert session.files.upload_archive("tree", archive_of("deep/er.bin", content)) == 2
    assert session.files.read("tree/deep/er.bin") == content
    with tarfile.open(fileobj=io.BytesIO(session.files.download_archive("tree"))) as archive:
        packed = archive.extractfile("deep/er.bin")
        assert packed is not None
        assert packed.read() == content
        assert archive.getmember("deep/er.bin").mode == 0o755
        assert archive.getmember("link").linkname == "deep/er.bin"
    with pytest.raises(FileError) as outside:
        session.files.upload_archive("tree", archive_of("../outside", b""))
    assert outside.value.code == "INVALID_PATH"
    with pytest.raises(FileError):
        session.files.download_archive("none")


def test_file_errors(session: Session) -> None:
    with pytest.raises(FileError) as missing:
        session.files.read("none")
    assert missing.value.code == "FILE_NOT_FOUND"
    with pytest.raises(FileError) as outside:
        session.files.read("../../etc/passwd")
    assert outside.value.code == "INVALID_PATH"
    session.files.write("there", "x")
    with pytest.raises(FileError) as exists:
        session.files.write("there", "y", overwrite=False)
    assert exists.value.code == "FILE_EXISTS"
    with pytest.raises(FileError):
        session.files.read(".")


class Losing(Driver):
    """Sends a request to `/path`, and loses its answer once."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path, self.sent = path, 0

    def _perform(self, effect: Effect) -> object:
        outcome: object = super()._perform(effect)
        if isinstance(effect, Http) and self.path in effect.url:
            self.sent += 1
            if self.sent == 1:
                raise Unreachable("lost", certain=False)
        return outcome


def losing(session: Session, path: str) -> tuple[Session, Losing]:
    driver = Losing(path)
    return Session(driver, session._plane), driver


def test_lost_answers(session: Session) -> None:
    for path in ("moved", "kept"):
        session.files.write(path, "text")
    other, driver = losing(session, "/files/move")
    other.files.move("moved", "there")
    assert (driver.sent, session.files.read_text("there")) == (2, "text")

    other, driver = losing(session, "/files?path=kept")
    other.files.delete("kept")
    assert (driver.sent, session.files.exists("kept")) == (2, False)

    other, driver = losing(session, "/files/upload")
    with pytest.raises(ConnectionFailedError):
        other.files.write("new", "text", overwrite=False)
    assert (driver.sent, session.files.read_text("new")) == (1, "text")

    run = session.start("sleep 600")
    other, driver = losing(session, "/signal")
    assert other.commands.signal(run.id, "KILL") is True
    assert run.wait().exit_code == 137
    assert session.commands.signal(run.id, "KILL") is False


def test_capabilities(client: Client, session: Session, thread_id: str) -> None:
    reader = client.session(thread_id, capabilities=["fs_read"])
    with pytest.raises(AccessDeniedError) as caught:
        reader.exec("true")
    assert caught.value.code == "CAPABILITY_DENIED"
    assert session.exec("true").exit_code == 0


def test_refresh_and_release(client: Client, session: Session, thread_id: str) -> None:
    session.refresh()
    assert session.exec("true").exit_code == 0
    session.release()
    session.release()
    with pytest.raises(NotFoundError):
        client.session(thread_id, mode="get")


def test_a_thread_id_that_cannot_be(client: Client) -> None:
    with pytest.raises(InvalidRequestError):
        client.session(" white space ")


def test_a_key_with_a_line_end_is_not_shown() -> None:
    with pytest.raises(ValueError, match="characters") as caught:
        Client("http://127.0.0.1:1", api_key="secret-key\nx")
    assert "secret" not in str(caught.value)
