"""Where the agent cannot be reached by clients, the broker's relay is the way (contract 3.11)."""

from __future__ import annotations

from collections.abc import Callable

from boxoffice import Session


def test_commands_and_streams_go_through_the_relay(session: Session, control: Callable[[str], None]) -> None:
    run = session.start("cat")
    run.write("before\n")
    pieces = iter(run)
    assert next(pieces).text == "before\n"
    assert session.mode == "direct"
    control("block")
    try:
        assert session.exec("echo relayed").stdout == "relayed\n"
        assert session.mode == "relay"
        run.write("after\n")
        run.end_stdin()
        assert "".join(piece.text for piece in pieces) == "after\n"
        assert run.wait().exit_code == 0
    finally:
        control("unblock")
