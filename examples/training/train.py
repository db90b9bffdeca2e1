"""Train a small network and keep checkpoints: killed or moved at any time, it goes on from the last one.

    python train.py --steps 2000 --every 200 --folder /checkpoints
    python train.py --steps 2000 --every 200 --folder s3://models/fit     # a bucket, see store.py

The result depends on steps and seed alone, not on how often it was interrupted: every checkpoint holds weights,
momentum and the state of the random numbers. `result.json` appears when it is done. With `--port` it shows when it
kept the last one, as a gauge for Prometheus: that is how Dure knows what is safe.
"""

import argparse
import hashlib
import http.server
import json
import os
import pickle
import threading
import time
from typing import Any

import numpy as np
from store import Store, store_of

WIDTH, BATCH, RATE, MOMENTUM = 64, 32, 0.05, 0.9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--every", type=int, default=200, help="steps between checkpoints")
    parser.add_argument("--folder", type=store_of, default="/checkpoints", help="where they are: a path or s3://...")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each checkpoint, to make it longer")
    parser.add_argument("--port", type=int, help="show the moment of the last checkpoint here")
    options = parser.parse_args()
    shown = Shown(options.port) if options.port is not None else None
    state = load(options.folder) or begin(seed=7)
    print(f"begins at step {state['step']} of {options.steps} on {os.uname().nodename}", flush=True)
    while state["step"] < options.steps:
        step(state)
        if state["step"] % options.every == 0:
            save(options.folder, state)
            if shown is not None:
                shown.saved_s = time.time()
            print(f"checkpoint at step {state['step']}, loss {state['loss']:.6f}", flush=True)
            time.sleep(options.pause)
    digest = hashlib.sha256(b"".join(weights.tobytes() for weights in state["weights"])).hexdigest()
    options.folder.write("result.json", json.dumps({"steps": state["step"], "weights": digest}).encode())
    print(f"done: {digest}", flush=True)


class Shown:
    """`saved_s` at `/metrics`; zero until this process has kept one."""

    def __init__(self, port: int) -> None:
        self.saved_s = 0.0
        shown = self

        class Metrics(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(f"checkpoint_timestamp_seconds {shown.saved_s}\n".encode())

            def log_message(self, *_: object) -> None:
                return

        server = http.server.ThreadingHTTPServer(("", port), Metrics)
        threading.Thread(target=server.serve_forever, daemon=True).start()


def begin(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    weights = [rng.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH), rng.standard_normal((WIDTH, 1)) / np.sqrt(WIDTH)]
    return {"step": 0, "loss": 0.0, "weights": weights, "speed": [np.zeros_like(w) for w in weights], "rng": rng}


def step(state: dict[str, Any]) -> None:
    """One batch of a regression whose truth is a fixed function of the input."""
    given = state["rng"].standard_normal((BATCH, WIDTH))
    wanted = np.tanh(given.sum(axis=1, keepdims=True) / np.sqrt(WIDTH))
    first, second = state["weights"]
    hidden = np.tanh(given @ first)
    error = hidden @ second - wanted
    state["loss"] = float((error**2).mean())
    back = (2.0 / BATCH) * error
    slopes = [given.T @ ((back @ second.T) * (1.0 - hidden**2)), hidden.T @ back]
    for weights, speed, slope in zip(state["weights"], state["speed"], slopes, strict=True):
        speed *= MOMENTUM
        speed -= RATE * slope
        weights += speed
    state["step"] += 1


def load(store: Store) -> dict[str, Any] | None:
    kept = store.read("checkpoint.pickle")
    if kept is None:
        return None
    found: dict[str, Any] = pickle.loads(kept)
    return found


def save(store: Store, state: dict[str, Any]) -> None:
    store.write("checkpoint.pickle", pickle.dumps(state))


if __name__ == "__main__":
    main()
