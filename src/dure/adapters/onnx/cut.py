"""Cut a model into segments: the schedulable units of a real device.

Nodes stay in the file's topological order; a cut is made where few tensors cross, near equal amounts of weight, so
a segment hands little on. Running the segments in order gives the model's own outputs. The worker calls `cut` once
when it loads a model.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec
import onnx
from onnx import helper

from dure.model.errors import InvalidInput


class Segment(msgspec.Struct, frozen=True):
    """One piece: a serialised model, what it takes (earlier tensors or model inputs) and what it hands on."""

    model: bytes
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    nodes: int


def cut(model: onnx.ModelProto, pieces: int) -> tuple[Segment, ...]:
    """At most `pieces` segments; fewer when the model has fewer nodes. `InvalidInput` for a model without nodes."""
    nodes = list(model.graph.node)
    if not nodes:
        raise InvalidInput("the model has no nodes", remedy="Export it again; an ONNX file needs at least one.")
    typed = _value_types(model)
    borders = [0, *_borders(model, nodes, min(pieces, len(nodes))), len(nodes)]
    return tuple(_segment(model, nodes, first, last, typed) for first, last in pairwise(borders))


def _borders(model: onnx.ModelProto, nodes: list[onnx.NodeProto], pieces: int) -> list[int]:
    crossing = [len(_crossing(model, nodes, at)) for at in range(len(nodes) + 1)]
    span = len(nodes) / pieces
    borders: list[int] = []
    for number in range(1, pieces):
        ideal = number * span
        low = max((borders[-1] if borders else 0) + 1, round(ideal - span / 2))
        high = min(len(nodes) - (pieces - number), round(ideal + span / 2))
        if low > high:
            continue
        borders.append(min(range(low, high + 1), key=lambda at: (crossing[at], abs(at - ideal), at)))
    return borders


def _crossing(model: onnx.ModelProto, nodes: list[onnx.NodeProto], at: int) -> set[str]:
    """Tensors made before `at` and still needed from there on."""
    made = {name for node in nodes[:at] for name in node.output}
    needed = {name for node in nodes[at:] for name in node.input} | {o.name for o in model.graph.output}
    return made & needed


def _segment(
    model: onnx.ModelProto, nodes: list[onnx.NodeProto], first: int, last: int, typed: dict[str, onnx.ValueInfoProto]
) -> Segment:
    own = nodes[first:last]
    weights = {w.name: w for w in model.graph.initializer}
    made = {name for node in own for name in node.output}
    wanted = [name for node in own for name in node.input if name]
    takes = tuple(dict.fromkeys(n for n in wanted if n not in made and n not in weights))
    later = {name for node in nodes[last:] for name in node.input} | {o.name for o in model.graph.output}
    gives = tuple(n for node in own for n in node.output if n in later)
    graph = helper.make_graph(
        own,
        f"{model.graph.name}[{first}:{last}]",
        [typed[name] for name in takes],
        [typed[name] for name in gives],
        [weights[name] for name in dict.fromkeys(wanted) if name in weights],
    )
    piece = helper.make_model(graph, opset_imports=list(model.opset_import))
    piece.ir_version = model.ir_version
    return Segment(piece.SerializeToString(), takes, gives, len(own))


def _value_types(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    inferred = onnx.shape_inference.infer_shapes(model).graph
    known = {value.name: value for value in (*inferred.value_info, *inferred.input, *inferred.output)}
    missing = sorted({o for node in model.graph.node for o in node.output if o} - known.keys())
    if missing:
        raise InvalidInput(
            f"the type of tensor '{missing[0]}' cannot be inferred",
            remedy="Export the model with shape information (onnx.shape_inference).",
        )
    return known
