"""The kubelet's wire format: what we write and read is what protobuf's own library writes and reads."""

from typing import Any

import pytest
from google.protobuf import (  # type: ignore[import-untyped]  # it brings no types
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from hypothesis import given
from hypothesis import strategies as st

from dure.adapters.kubelet import device_plugin as api
from dure.adapters.kubelet.wire import decode, encode
from dure.model.errors import InvalidInput

TEXT = st.text(max_size=8)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
INJECTED = st.builds(
    api.Injected,
    envs=st.dictionaries(TEXT, TEXT, max_size=3),
    mounts=st.lists(st.builds(api.Mount, TEXT, TEXT, st.booleans()), max_size=2).map(tuple),
    devices=st.lists(st.builds(api.DeviceNode, TEXT, TEXT, TEXT), max_size=2).map(tuple),
    annotations=st.dictionaries(TEXT, TEXT, max_size=2),
)
ANSWERS = st.builds(api.AllocateAnswer, st.lists(INJECTED, max_size=3).map(tuple))
PREFERENCES = st.builds(
    api.PreferenceRequest,
    st.lists(st.builds(api.Preference, TEXTS, TEXTS, st.integers(-(2**31), 2**31 - 1)), max_size=3).map(tuple),
)


@given(ANSWERS)
def test_what_is_written_is_read_again(answer: api.AllocateAnswer) -> None:
    assert decode(api.AllocateAnswer, encode(answer)) == answer


@given(PREFERENCES)
def test_protobuf_reads_what_we_write_and_we_read_what_it_writes(request: api.PreferenceRequest) -> None:
    theirs = preference_class()()
    theirs.ParseFromString(encode(request))
    assert [(tuple(c.available), tuple(c.must), c.size) for c in theirs.containers] == [
        (c.available, c.must_include, c.size) for c in request.containers
    ]
    assert decode(api.PreferenceRequest, theirs.SerializeToString()) == request


@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_or_a_clear_error(data: bytes) -> None:
    try:
        found = decode(api.AllocateAnswer, data)
    except InvalidInput:
        found = api.AllocateAnswer()
    assert decode(api.AllocateAnswer, encode(found)) == found


def test_fields_of_a_newer_kubelet_are_skipped() -> None:
    newer = encode(api.Register(endpoint="a.sock", resource_name="dure.dev/gpu")) + b"\x7a\x03new\x80\x01\x05"
    assert decode(api.Register, newer).endpoint == "a.sock"


def test_a_message_that_is_cut_off_is_refused() -> None:
    with pytest.raises(InvalidInput, match="in the middle"):
        decode(api.Register, encode(api.Register(endpoint="a.sock"))[:-2])


def preference_class() -> Any:
    """The same message as protobuf's library makes it from a description."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="preference.proto", package="t", syntax="proto3")
    inner = file.message_type.add(name="Preference")
    for number, (name, kind, label) in enumerate(
        (("available", kinds.TYPE_STRING, 3), ("must", kinds.TYPE_STRING, 3), ("size", kinds.TYPE_INT32, 1)), start=1
    ):
        inner.field.add(name=name, number=number, type=kind, label=label)
    outer = file.message_type.add(name="Request")
    outer.field.add(name="containers", number=1, type=kinds.TYPE_MESSAGE, label=3, type_name=".t.Preference")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Request"))
