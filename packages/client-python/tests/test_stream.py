"""Streams: output by offset, input, dropped connections, shells."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from boxoffice import Client, OutputGapError, Run, Session, SessionEvent
from boxoffice._sync.driver import Driver
from boxoffice._wire.effects import Effect, Hear, Unreachable

Control = Callable[[str], None]


def output_of(run: Run, stream: str = "stdout") -> bytes:
    return b"".join(piece.data for piece in run if piece.stream == stream)


def test_both_streams_and_the_exit(session: Session) -> None:
    run = session.start("echo out; echo err >&2; exit 3")
    pieces = list(run)
    assert [(piece.stream, piece.text) for piece in sorted(pieces, key=lambda piece: piece.stream)] == [
        ("stderr", "err\n"),
        ("stdout", "out\n"),
    ]
    assert run.exit is not None
    assert run.exit.exit_code == 3
    assert run.pid


def test_proxies_of_the_environment_are_not_used(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "ws_proxy", "wss_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert session.exec("echo exec").stdout == "exec\n"
    assert output_of(session.start("echo start")) == b"start\n"


def test_a_host_is_the_same_in_capitals(session: Session) -> None:
    endpoint = session._plane.endpoint
    session._plane.endpoint = replace(endpoint, ws=endpoint.ws.replace("127.0.0.1", "LocalHost"))
    assert output_of(session.start("echo there")) == b"there\n"


def test_a_token_in_date_waits_for_no_broker(thread_id: str) -> None:
    with Client(os.environ["BOXOFFICE_URL"], api_key=os.environ["BOXOFFICE_API_KEY"], reconnect_window=600) as client:
        session = client.session(thread_id)
        run = session.start("cat")
        there, client._broker.url = client._broker.url, "http://127.0.0.1:9"
        session._plane.token.renew_at = run._stream._renew_at = 0
        run.write("one\n")
        assert next(iter(run)).text == "one\n"
        session._plane.token.renew_at = 0
        assert session.exec("echo two").stdout == "two\n"
        client._broker.url = there
        session.release()


def test_wait_passes_lost_output_by(session: Session) -> None:
    run = session.start("head -c 4000000 /dev/zero; touch written; exit 3", detach=True)
    run.detach()
    session.exec("until [ -e written ]; do sleep 0.05; done")
    with pytest.raises(OutputGapError):
        output_of(session.attach(run.id, mode="viewer"))
    assert session.attach(run.id).wait().exit_code == 3


def test_what_cannot_be_started_has_an_exit(session: Session) -> None:
    run = session.start(["/no/such/program"])
    assert run.wait().exit_code == 127
    assert run.pid is None


def test_stdin_while_another_thread_reads(session: Session) -> None:
    content = bytes(range(256)) * 4096 * 3
    run = session.start("cat")

    def feed() -> None:
        run.write(content)
        run.end_stdin()

    feeder = threading.Thread(target=feed)
    feeder.start()
    received = output_of(run)
    feeder.join(60)
    assert received == content


def test_output_and_input_survive_cuts(session: Session, control: Control) -> None:
    run = session.start('while read -r line; do echo "got $line"; done; seq 1 200000; echo x >> ran; cat ran')
    expected = b""
    for number in range(3):
        run.write(f"{number}\n")
        expected += f"got {number}\n".encode()
        control("cut")
    run.end_stdin()
    control("cut")
    received = b""
    cuts = 0
    for piece in run:
        assert piece.offset == len(received)
        received += piece.data
        if len(received) > 400_000 * (cuts + 1):
            cuts += 1
            control("cut")
    expected += b"".join(b"%d\n" % number for number in range(1, 200_001)) + b"x\n"
    assert received == expected
    assert cuts >= 2


def test_exec_survives_a_cut_and_runs_once(session: Session, control: Control) -> None:
    started = session.start("until [ -e go ]; do sleep 0.05; done")
    results: list[str] = []
    worker = threading.Thread(
        target=lambda: results.append(session.exec("echo x >> log; touch running; until [ -e go ]; do sleep 0.05; done; cat log").stdout)
    )
    worker.start()
    session.exec("until [ -e running ]; do sleep 0.05; done")
    control("cut")
    session.files.write("go", "")
    worker.join(90)
    assert results == ["x\n"]
    assert started.wait().exit_code == 0


def test_attach_reads_from_an_offset(session: Session) -> None:
    run = session.start("printf 0123456789; cat; printf end")
    assert next(iter(run)).data == b"0123456789"
    run.detach()
    again = session.attach(run.id, stdout_offset=5)
    again.end_stdin()
    assert output_of(again) == b"56789end"


def test_kill_and_signal(session: Session) -> None:
    run = session.start("sleep 600")
    assert run.kill().exit_code == 137
    other = session.start("sleep 600")
    session.commands.signal(other.id, "TERM")
    assert other.wait().signal == "SIGTERM"


class Dropping(Driver):
    """Loses its connection when it listens for the second time."""

    heard = 0

    def _perform(self, effect: Effect) -> object:
        self.heard += isinstance(effect, Hear)
        if isinstance(effect, Hear) and self.heard == 2:
            raise Unreachable("dropped", certain=False)
        outcome: object = super()._perform(effect)
        return outcome


def exits_of(events: list[SessionEvent]) -> list[tuple[str, int]]:
    return [(event.data["exec_id"], event.data["exit_code"]) for event in events if event.type == "exec.exit"]


def test_events(session: Session) -> None:
    events = Session(Dropping(), session._plane).events()
    seen = [next(events)]
    assert seen[0].type == "state"
    expected = [("first", 3), ("second", 0)]
    session.exec("exit 3", exec_id="first")
    session.exec("true", exec_id="second")
    while exits_of(seen) != expected:
        seen.append(next(events))
    session.release()
    seen += events
    assert exits_of(seen) == expected
    assert seen[-1].type == "released"
    ids = [event.id for event in seen if event.id is not None]
    assert ids == sorted(set(ids))
    assert [event.id for event in session.events(last_event_id=ids[-2])] == ids[-1:]
    assert list(session.events(last_event_id=ids[-1])) == []


def test_shell(session: Session) -> None:
    shell = session.shell(cols=100, rows=30)
    shell.resize(120, 40)
    shell.write("stty size; echo $((6 * 7))-done; exit 5\n")
    received = output_of(shell)
    assert b"40 120" in received
    assert b"42-done" in received
    assert shell.exit is not None
    assert shell.exit.exit_code == 5


def test_a_shell_is_shared(client: Client, session: Session, thread_id: str) -> None:
    first = session.shell()
    second = client.session(thread_id).shell(first.id)
    second.write("echo shared-$((1 + 1)); exit\n")
    assert b"shared-2" in output_of(first)
    assert second.wait().exit_code == 0
