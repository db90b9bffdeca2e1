"""Small models of three kinds, written by Dure itself: convolution, transformer, recommender.

Weights are drawn from a seed, so a file is reproducible. Used by tests, the demo and `dure bench device`; no model is
shipped or fetched.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class _Graph:
    """Collects nodes and weights."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        scale = 1.0 / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else shape[0])
        values = self._rng.standard_normal(shape).astype(np.float32) * np.float32(scale)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"n{len(self.nodes)}", **attributes))
        return name


def convolution(seed: int = 0, blocks: int = 6, channels: int = 24, side: int = 32) -> onnx.ModelProto:
    """Residual convolution blocks over an image, then a classifier."""
    g = _Graph(seed)
    x = g.op("Relu", g.op("Conv", "input", g.weight(channels, 3, 3, 3), pads=[1, 1, 1, 1]))
    for _ in range(blocks):
        y = g.op("Relu", g.op("Conv", x, g.weight(channels, channels, 3, 3), pads=[1, 1, 1, 1]))
        y = g.op("Conv", y, g.weight(channels, channels, 3, 3), pads=[1, 1, 1, 1])
        x = g.op("Relu", g.op("Add", x, y))
    flat = g.op("Flatten", g.op("GlobalAveragePool", x))
    return _model(g, "convolution", g.op("MatMul", flat, g.weight(channels, 10)), (1, 3, side, side), (1, 10))


def transformer(seed: int = 0, layers: int = 4, width: int = 64, length: int = 48) -> onnx.ModelProto:
    """Single-head attention layers with feed-forward blocks."""
    g = _Graph(seed)
    x = "input"
    for _ in range(layers):
        q, k, v = (g.op("MatMul", x, g.weight(width, width)) for _ in range(3))
        scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 2, 1]))
        x = g.op("Add", x, g.op("MatMul", g.op("Softmax", scores, axis=-1), v))
        hidden = g.op("Relu", g.op("MatMul", x, g.weight(width, 4 * width)))
        x = g.op("Add", x, g.op("MatMul", hidden, g.weight(4 * width, width)))
    return _model(g, "transformer", x, (1, length, width), (1, length, width))


def recommender(seed: int = 0, layers: int = 8, features: int = 64, width: int = 256) -> onnx.ModelProto:
    """A deep ranking network over dense features."""
    g = _Graph(seed)
    x = g.op("Relu", g.op("MatMul", "input", g.weight(features, width)))
    for _ in range(layers):
        x = g.op("Relu", g.op("Add", g.op("MatMul", x, g.weight(width, width)), g.weight(width)))
    return _model(g, "recommender", g.op("Sigmoid", g.op("MatMul", x, g.weight(width, 1))), (32, features), (32, 1))


KINDS: dict[str, Callable[..., onnx.ModelProto]] = {
    "convolution": convolution,
    "transformer": transformer,
    "recommender": recommender,
}


def write_model(kind: str, path: Path, seed: int = 0, **shape: int) -> Path:
    """Write one of the `KINDS` to `path`, in its usual shape or another one."""
    onnx.save(KINDS[kind](seed, **shape), str(path))
    return path


def sample_input(model: onnx.ModelProto, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """A random input of the right shape for each of the model's inputs."""
    rng = np.random.default_rng(seed)
    weights = {w.name for w in model.graph.initializer}
    return {
        value.name: rng.standard_normal([d.dim_value for d in value.type.tensor_type.shape.dim]).astype(np.float32)
        for value in model.graph.input
        if value.name not in weights
    }


def _model(g: _Graph, name: str, result: str, given: tuple[int, ...], answered: tuple[int, ...]) -> onnx.ModelProto:
    g.nodes[-1].output[0] = "output" if g.nodes[-1].output[0] == result else g.nodes[-1].output[0]
    graph = helper.make_graph(
        g.nodes,
        name,
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, list(given))],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, list(answered))],
        g.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    return model
