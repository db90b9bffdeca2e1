"""The model server: ready when warm, answers, counts in the usual names, and loses nobody while it drains."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from dure.device.serving.server import ModelServer
from dure.device.slice_wire import Array, packed, unpacked
from dure.model.errors import Temporary


class Doubling:
    """A backend that doubles; `hold` keeps answers back, `away` plays a daemon that is gone."""

    memory_mib = 256

    def __init__(self) -> None:
        self.ready = True
        self.away = False
        self.asked = threading.Semaphore(0)
        self.go = threading.Event()
        self.go.set()

    def infer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        if self.away:
            raise Temporary("the slice is gone")
        self.asked.release()
        self.go.wait(30.0)
        return {"output": inputs["input"] * 2}

    def close(self) -> None:
        return


@pytest.fixture
def backend() -> Doubling:
    return Doubling()


@pytest.fixture
def server(backend: Doubling) -> Iterator[ModelServer]:
    made = ModelServer(backend, "double", {"input": np.zeros(2, np.float32)}, ("127.0.0.1", 0))
    for _ in range(3):
        assert backend.asked.acquire(timeout=30.0)
    made._threads[1].join(30.0)
    yield made
    backend.go.set()
    made.close()


def ask(server: ModelServer, path: str, body: object = None) -> tuple[int, bytes]:
    data = None if body is None else msgspec.json.encode(body)
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", data)
    try:
        with urllib.request.urlopen(request, timeout=30.0) as answer:
            return int(answer.status), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def question(*values: float) -> dict[str, Any]:
    return {"inputs": packed({"input": np.array(values, np.float32)})}


def test_it_answers_and_tells_of_it_in_the_usual_names(server: ModelServer) -> None:
    status, body = ask(server, "/v1/infer", question(1.0, 2.5))
    outputs = msgspec.convert(json.loads(body)["outputs"], dict[str, Array])
    assert status == 200
    assert unpacked(outputs)["output"].tolist() == [2.0, 5.0]
    told = ask(server, "/metrics")[1].decode()
    assert 'vllm:e2e_request_latency_seconds_count{model_name="double"} 1.0' in told
    assert 'vllm:request_success_total{finished_reason="stop",model_name="double"} 1.0' in told
    assert 'DCGM_FI_DEV_FB_USED{model_name="double"} 256.0' in told


def test_it_is_not_ready_before_it_is_warm_nor_without_its_device(server: ModelServer, backend: Doubling) -> None:
    assert ask(server, "/health")[0] == 200
    backend.ready = False
    assert ask(server, "/health")[0] == 503


def test_while_it_drains_those_inside_and_those_who_still_come_are_answered(
    server: ModelServer, backend: Doubling
) -> None:
    backend.go.clear()
    statuses: list[int] = []

    def client() -> None:
        statuses.append(ask(server, "/v1/infer", question(1.0))[0])

    inside = threading.Thread(target=client)
    inside.start()
    assert backend.asked.acquire(timeout=30.0)
    drained: list[bool] = []
    draining = threading.Thread(target=lambda: drained.append(server.drain()))
    draining.start()
    while server.ready:
        draining.join(0.01)
    assert ask(server, "/health")[0] == 503
    late = threading.Thread(target=client)
    late.start()
    assert backend.asked.acquire(timeout=30.0)
    assert drained == []
    backend.go.set()
    for thread in (inside, late, draining):
        thread.join(30.0)
    assert statuses == [200, 200]
    assert drained == [True]


def test_what_cannot_be_answered_says_why(server: ModelServer, backend: Doubling) -> None:
    assert ask(server, "/v1/infer", {"inputs": 5})[0] == 400
    assert ask(server, "/nowhere")[0] == 404
    backend.away = True
    status, body = ask(server, "/v1/infer", question(1.0))
    assert status == 503
    assert "the slice is gone" in json.loads(body)["detail"]
