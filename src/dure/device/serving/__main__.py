"""`python -m dure.device.serving MODEL`: serve one ONNX model until SIGTERM, then drain."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from pathlib import Path

import msgspec
import numpy as np

from dure.device.serving.backend import Backend, DirectBackend, SliceBackend
from dure.device.serving.server import ModelServer


def main(argv: list[str] | None = None) -> None:
    options = _parser().parse_args(argv)
    socket = os.environ.get("DURE_DEVICE", "")
    backend: Backend
    if options.direct or not socket:
        backend = DirectBackend(options.model, options.threads)
    else:
        backend = SliceBackend(Path(socket), options.model, options.latency_ms)
    shapes = msgspec.json.decode(options.shapes, type=dict[str, list[int]])
    sample = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    server = ModelServer(backend, options.model.stem, sample, (options.address, options.port))
    print(f"serving {options.model.name} on port {server.port}", flush=True)
    stop.wait()
    drained = server.drain(options.linger)
    server.close()
    print("drained" if drained else "ended with requests inside", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dure.device.serving", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--address", default="127.0.0.1", help="0.0.0.0 inside a pod (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--shapes", required=True, help='of the inputs, for the warm-up: {"input": [32, 64]}')
    parser.add_argument("--latency-ms", type=float, help="what the device should promise")
    parser.add_argument("--linger", type=float, default=2.0, help="seconds to answer on after SIGTERM")
    parser.add_argument("--direct", action="store_true", help="in this process, also when there is a slice")
    parser.add_argument("--threads", type=int, default=1, help="with --direct")
    return parser


if __name__ == "__main__":
    main()
