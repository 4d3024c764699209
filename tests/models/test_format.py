"""A file holds what was put in, the same bytes each time, and no damage to it goes unseen."""

import doctest
import hashlib
import json
import mmap
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaboost.models.state import format as module
from kaboost.models.state.format import FormatError, pack, unpack

ARRAYS = {
    "w": np.arange(6.0).reshape(2, 3),
    "events": np.array(7, np.int64),
    "keys": np.array([[2**64 - 1]], np.uint64),
    "none": np.empty((0, 4)),
    "flags": np.array([True, False, True]),
    "bytes": np.arange(5, dtype=np.uint8),
    "float32": np.ones(3, np.float32),
}
HEADER = {
    "kind": "test",
    "sha256": "0" * 64,
    "zoo": {"sha256": "f" * 64},
    "model": {"b": 1.5, "a": [1, None, "é"]},
    "version": 3,
}


def test_what_goes_in_comes_out():
    """Names, types, shapes, values, header survive; the arrays are read-only, aligned views."""
    file = pack(ARRAYS, HEADER)
    header, arrays = unpack(file)

    assert header == HEADER
    assert arrays.keys() == ARRAYS.keys()
    for name, expected in ARRAYS.items():
        assert expected.dtype == arrays[name].dtype
        assert expected.shape == arrays[name].shape
        assert expected.tobytes() == arrays[name].tobytes()
        assert not arrays[name].flags.writeable
        assert arrays[name].flags.aligned
        assert arrays[name].flags.c_contiguous
        assert np.shares_memory(arrays[name], np.frombuffer(file, np.uint8)) or not expected.size


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    st.dictionaries(
        st.from_regex(r"[\w.-]{1,5}", fullmatch=True),
        st.lists(st.floats(width=64), max_size=4).map(lambda values: np.array(values, np.float64)),
        max_size=4,
    ),
    st.dictionaries(st.text(max_size=5), st.integers() | st.text() | st.none(), max_size=4),
)
def test_anything_plain_comes_back(arrays, header):
    """Any names, any floats, any texts."""
    found_header, found = unpack(pack(arrays, header))

    assert header == found_header
    assert arrays.keys() == found.keys()
    assert all(array.tobytes() == found[name].tobytes() for name, array in arrays.items())


def test_mapped_file_is_not_copied(tmp_path):
    """The arrays of a mapped file are the map itself, also without the digest's check."""
    path = tmp_path / "file"
    path.write_bytes(pack(ARRAYS, HEADER))
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    for verify in (True, False):
        _, arrays = unpack(mapped, verify=verify)

        assert np.shares_memory(arrays["w"], np.frombuffer(mapped, np.uint8))
        assert ARRAYS["w"].tolist() == arrays["w"].tolist()


def test_same_input_gives_the_same_bytes():
    """In another process, in another order of names, the file is the same."""
    program = (
        "import hashlib, sys; from tests.models.test_format import *;"
        "turned = dict(reversed(ARRAYS.items())), dict(reversed(HEADER.items()));"
        "print(hashlib.sha256(pack(*turned)).hexdigest())"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert hashlib.sha256(pack(ARRAYS, HEADER)).hexdigest() == done.stdout.strip()


def test_every_flipped_bit_is_found():
    """Each single bit of a file, flipped, makes it damaged and nothing else."""
    file = pack(ARRAYS, HEADER)
    for place in range(len(file)):
        for bit in range(8):
            damaged = bytearray(file)
            damaged[place] ^= 1 << bit
            with pytest.raises(FormatError, match="file: "):
                unpack(bytes(damaged))


@pytest.mark.parametrize("verify", [True, False])
def test_every_truncation_and_every_rest_is_found(verify):
    """A file that ends early, or late, is damaged, also without the digest's check."""
    file = pack(ARRAYS, HEADER)
    for end in range(len(file)):
        with pytest.raises(FormatError, match="file: "):
            unpack(file[:end], verify=verify)
    for rest in (b"\0", file):
        with pytest.raises(FormatError, match="file: "):
            unpack(file + rest, verify=verify)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.integers(0, 2000), st.binary(min_size=1, max_size=8), st.booleans())
def test_garbage_is_never_more_than_a_format_error(place, junk, verify):
    """Whatever overwrites a part of the file, reading gives arrays or a FormatError."""
    file = bytearray(pack(ARRAYS, HEADER))
    place %= len(file)
    file[place : place + len(junk)] = junk
    with suppress(FormatError):
        unpack(bytes(file), verify=verify)


@pytest.mark.parametrize("junk", [b"", b"{}", b"\0" * 100, b"\xff" * 100, b"PK" * 50])
def test_other_files_are_refused(junk):
    """A file of another kind is named as such."""
    with pytest.raises(FormatError, match="Kaboost file"):
        unpack(junk)


def test_foreign_safetensors_file_is_refused():
    """A safetensors file that this program did not write has no digest and is refused."""
    from safetensors.numpy import save

    with pytest.raises(FormatError, match="not a Kaboost file"):
        unpack(save(dict(ARRAYS)))


def forge(change):
    """Return a file with a right digest over an index that was changed by hand."""
    file = pack(ARRAYS, HEADER)
    start = 8 + int.from_bytes(file[:8], "little")
    index = json.loads(file[8:start])
    own = json.loads(index["__metadata__"]["kaboost"])
    own["sha256"] = "0" * 64
    change(own, index)
    index["__metadata__"]["kaboost"] = json.dumps(own, sort_keys=True, separators=(",", ":"))
    text = json.dumps(index, separators=(",", ":")).encode()
    whole = len(text).to_bytes(8, "little") + text + file[start:]
    before, after = whole.rsplit(b"0" * 64, 1)
    return before + hashlib.sha256(whole).hexdigest().encode() + after


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda own, index: own.update(format=2), "format 2 is newer than 1"),
        (lambda own, index: own.pop("format"), "index"),
        (lambda own, index: index["w"].update(dtype="F128"), "index"),
        (lambda own, index: index["w"].update(shape=[3, 3]), "'w' is not where"),
        (lambda own, index: index["w"].update(shape=[-2, -3]), "index|where"),
        (lambda own, index: index["w"].update(shape=[2**40, 2**40]), "'w' is not where"),
        (lambda own, index: index["w"].update(data_offsets=[0, 48]), "is not where"),
        (lambda own, index: index.pop("w"), "is not where|too many"),
        (lambda own, index: index.pop("bytes"), "too many|is not where"),
        (lambda own, index: index.update(w=[]), "index"),
    ],
)
def test_forged_index_is_refused(change, message):
    """A digest that fits does not make a wrong index readable."""
    assert unpack(forge(lambda own, index: None))[0] == HEADER
    with pytest.raises(FormatError, match=message):
        unpack(forge(change))


@pytest.mark.parametrize(
    ("arrays", "header", "message"),
    [
        ({"w": np.ones((3, 4)).T}, {}, "w: is not C-contiguous"),
        ({"w": np.ones(8)[::2]}, {}, "w: is not C-contiguous"),
        ({"w": np.array([object()])}, {}, "w: dtype object"),
        ({"w": np.array(["text"])}, {}, "w: dtype <U4"),
        ({"w": np.ones(2, ">f8")}, {}, "w: dtype >f8"),
        ({"__metadata__": np.ones(2)}, {}, "__metadata__"),
        ({'"sha256":': np.ones(2)}, {}, "not a name of an array"),
        ({}, {"loss": float("nan")}, "header: "),
        ({}, {"loss": np.ones(2)}, "header: "),
    ],
)
def test_what_cannot_be_stored_is_refused(arrays, header, message):
    """Nothing is written that could not be read back as it was."""
    with pytest.raises(FormatError, match=message):
        pack(arrays, header)


def test_examples_run():
    """The examples in the docstrings give what they show."""
    assert doctest.testmod(module).failed == 0
