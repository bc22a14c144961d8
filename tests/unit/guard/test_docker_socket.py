"""Requests to a Docker engine, against an HTTP server on a Unix socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import docker_socket, unix_http
from ddp_play.guard.docker_socket import EngineError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.guard.conftest import Engine


def test_documents_come_back_as_they_are(engine: Engine) -> None:
    engine.has("GET /version", {"Version": "26.1"})
    engine.has("GET /images/team/train:2/json", {"Id": "sha256:1"})
    engine.has("GET /containers/r0/json", {"State": {"Pid": 7}})
    assert docker_socket.version() == {"Version": "26.1"}
    assert docker_socket.image("team/train:2") == {"Id": "sha256:1"}
    assert docker_socket.inspect("r0") == {"State": {"Pid": 7}}


def test_an_image_that_is_not_here_is_none_and_other_errors_are_errors(engine: Engine) -> None:
    assert docker_socket.image("team/train:3") is None
    engine.has("GET /images/team/train:3/json", {"message": "layers are broken"}, 500)
    with pytest.raises(EngineError, match="layers are broken") as caught:
        docker_socket.image("team/train:3")
    assert caught.value.status == 500


def test_containers_are_found_by_label_and_none_is_an_empty_list(engine: Engine) -> None:
    request = "GET /containers/json?all=1&filters=%7B%22label%22%3A%20%5B%22ddp-play.run%22%5D%7D"
    engine.has(request, [{"Id": "1"}])
    assert docker_socket.containers("ddp-play.run") == [{"Id": "1"}]
    engine.has(request, [])
    assert docker_socket.containers("ddp-play.run") == []


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (204, "", 0),
        (304, "", 0),
        (400, 'exec: "trian": executable file not found in $PATH', 127),
        (400, "stat /work/train.sh: no such file or directory", 127),
        (400, "exec /work/train.sh: permission denied", 126),
        (500, "could not select device driver with capabilities: [[gpu]]", 125),
    ],
)
def test_a_start_has_the_exit_code_that_the_command_line_shows(
    engine: Engine, status: int, message: str, code: int
) -> None:
    engine.has("POST /containers/r0/start", {"message": message} if message else b"", status)
    assert docker_socket.start("r0") == (code, message)


@pytest.mark.parametrize("status", [204, 404, 409])
def test_signals_to_a_container_that_does_not_run_are_no_error(engine: Engine, status: int) -> None:
    engine.has("POST /containers/r0/kill?signal=SIGTERM", b"", status)
    docker_socket.kill("r0", "SIGTERM")
    assert engine.asked == ["POST /containers/r0/kill?signal=SIGTERM"]


def test_containers_go_with_their_volumes_and_only_once(engine: Engine) -> None:
    engine.has("DELETE /containers/r0?force=1&v=1", b"", 204)
    docker_socket.remove("r0")
    docker_socket.remove("r1")  # not here
    assert [request.split("?")[0] for request in engine.asked] == ["DELETE /containers/r0", "DELETE /containers/r1"]


def test_a_refused_signal_or_removal_is_an_error(engine: Engine) -> None:
    engine.has("POST /containers/r0/kill?signal=SIGTERM", {"message": "busy"}, 500)
    engine.has("DELETE /containers/r0?force=1&v=1", {"message": "busy"}, 500)
    with pytest.raises(EngineError, match="busy"):
        docker_socket.kill("r0", "SIGTERM")
    with pytest.raises(EngineError, match="busy"):
        docker_socket.remove("r0")


def test_an_error_without_a_message_has_its_status(engine: Engine) -> None:
    engine.has("GET /version", b"", 502)
    with pytest.raises(EngineError, match="HTTP 502"):
        docker_socket.version()


def test_output_of_a_container_comes_without_stream_headers(engine: Engine) -> None:
    frames = b"\x01\0\0\0\0\0\0\x03out" + b"\x02\0\0\0\0\0\0\x04err\n"
    engine.has("GET /containers/r0/logs?stdout=1&stderr=1&tail=5", frames)
    assert docker_socket.logs_tail("r0", 5) == b"outerr\n"


def test_without_an_engine_the_socket_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    with pytest.raises(EngineError, match=rf"no Docker engine answers on {tmp_path}/no\.sock") as caught:
        docker_socket.version()
    assert caught.value.status == 0
    assert docker_socket.logs_tail("r0") == b""


def test_a_socket_without_permission_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(unix_http, "request", refuse)
    with pytest.raises(EngineError, match=r"no permission on /var/run/docker\.sock") as caught:
        docker_socket.version()
    assert caught.value.status == -1
