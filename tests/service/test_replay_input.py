"""Input of a replay that is not as it should be: what it says, and what it keeps."""

import codecs
import gzip
import os
import resource
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from kaboost.service.errors import ConfigError
from kaboost.service.lab import byte_streams
from kaboost.service.lab.byte_streams import Input, Utf8Stream
from kaboost.service.lab.cells import convert, style_of
from kaboost.service.lab.file_source import FileSource
from tests.service.replays import replayed, rows, write_csv


def text_of(path: Path) -> str:
    """Read a file as the laboratory does."""
    with closing(Input(str(path))) as opened:
        return Utf8Stream(opened.stream).read().decode()


def values_of(path: Path, delimiter: str | None = None) -> list[bytes]:
    """Return the records of a file."""
    with closing(FileSource(str(path), delimiter)) as source:
        return [value for chunk in source.chunks() for value in chunk.values]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty; name a file with a header and rows"),
        ("amount,fraud\n", "has no records; name an input with a header and rows"),
        ("amount,amount\n1,2\n", "column 'amount' occurs twice in the header; rename one"),
        ("1.5,0\n2,1\n", "the first line has numbers instead of names"),
        ("\namount,fraud\n1,0\n", "the first line is blank; remove it"),
    ],
)
def test_no_rows(tmp_path: Path, text: str, why: str) -> None:
    """A file without rows is refused with the remedy."""
    path = tmp_path / "a.csv"
    path.write_text(text)

    with pytest.raises(ConfigError, match=why):
        replayed(path)


def test_missing_label_names_near_ones(tmp_path: Path) -> None:
    """A label that no record has is refused with the nearest names."""
    path = write_csv(tmp_path / "a.csv", rows(50))

    with pytest.raises(ConfigError, match=r"--label Froud: .*did you mean 'fraud'\?"):
        replayed(path, "Froud")


def test_no_file_and_wrong_format(tmp_path: Path) -> None:
    """A missing file, and one that is not of its format, are named."""
    with pytest.raises(ConfigError, match="No such file or directory; name a file"):
        replayed(tmp_path / "gone.csv")
    path = tmp_path / "a.parquet"
    path.write_text("no columns")
    with pytest.raises(ConfigError, match=r"a\.parquet: cannot be read as parquet"):
        replayed(path)
    for name, head in (("a.json", ""), ("a", "\ufeff\n")):
        array = tmp_path / name
        array.write_text(head + '[ {"a": 1}]', "utf-8")
        with pytest.raises(ConfigError, match="is one JSON array; write one object a line"):
            values_of(array)


def test_one_class(tmp_path: Path) -> None:
    """Labels of one class are learned, with a note that this teaches nothing."""
    found = [{**row, "fraud": 1} for row in rows(60)]
    result = replayed(write_csv(tmp_path / "a.csv", found))

    assert any("all 60 labels are 1" in note for note in result.figures["notes"])


def test_ragged_rows(tmp_path: Path) -> None:
    """Rows with more or fewer values are rejected one by one, with an example."""
    path = write_csv(tmp_path / "a.csv", rows(40))
    with path.open("a") as file:
        file.write("o1,2\no2,1,PT,true,1,7,8\n")
    result = replayed(path)

    assert {"ragged": 2} == result.figures["rejected"]
    example = result.figures["examples"]["ragged"]
    assert "row 42 has 2 values for 5 columns; quote values that contain ','" == example
    assert (42, 40) == (result.figures["records"], result.events)


def test_unclosed_quote_is_named(tmp_path: Path) -> None:
    """Lines that an unclosed quote swallows are not lost without a word."""
    path = write_csv(tmp_path / "a.csv", rows(40))
    with path.open("a") as file:
        file.write('"o41,1.5,PT,true,1\n' + "o42,1.5,PT,true,1\n" * 3)
    result = replayed(path)

    assert {"ragged": 1} == result.figures["rejected"]
    assert "close the quote that it begins with" in result.figures["examples"]["ragged"]


def test_label_is_asked_for(tmp_path: Path) -> None:
    """Without a telling name the flag is named, with candidates."""
    path = write_csv(tmp_path / "a.csv", [{"x": k, "c": "ab"[k % 2]} for k in range(50)])

    with pytest.raises(
        ConfigError, match=r"--label: is missing; pass it\. Label \(candidates: c, x\)$"
    ):
        replayed(path, None)


def test_rejected_rows_have_their_reason(tmp_path: Path) -> None:
    """A value that is no number becomes no number: its row is rejected as the service would."""
    path = write_csv(tmp_path / "a.csv", rows(200))
    with path.open("a") as file:
        file.write("o900,much,PT,true,1\no901,1.5,PT,true,maybe\n")
    result = replayed(path)

    assert {"feature_type": 1, "label": 1} == result.figures["rejected"]
    assert "much" in result.figures["examples"]["feature_type"]


def test_nothing_learned(tmp_path: Path) -> None:
    """Where every row is rejected, the commonest reason is the message."""
    config = tmp_path / "k.yaml"
    config.write_text("task: {kind: binary, labels: [no, yes]}\nevents: {label: fraud}\n")
    path = write_csv(tmp_path / "a.csv", rows(30))

    with pytest.raises(ConfigError, match=r"no event was learned, 30 were rejected; .*label"):
        replayed(path, None, config=config, overrides={})


def test_encodings(tmp_path: Path) -> None:
    """Marks go, UTF-16 is read, lines that are not UTF-8 are Windows-1252, and counted."""
    path = tmp_path / "a.txt"
    text = "name\nÖl\nplain\n"
    for written in (text.encode("utf-8-sig"), text.encode("utf-16"), text.encode()):
        path.write_bytes(written)
        assert text == text_of(path)
    path.write_bytes("a\nÖl\n".encode() + "Käse\n".encode("cp1252") + b"\x81\n")
    with closing(Input(str(path))) as opened:
        stream = Utf8Stream(opened.stream)
        assert "a\nÖl\nKäse\n\x81\n" == stream.read().decode()
        assert 2 == stream.fallback_lines
    path.write_bytes(codecs.BOM_UTF8)
    assert "" == text_of(path)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["1,5", "2", "1.234,25"], [1.5, 2, 1234.25]),
        (["1,234.5", "2", "7,000"], [1234.5, 2, 7000]),
        (["1.5", "-3", "N/A", ""], [1.5, -3, "N/A", None]),
        (["007", "12"], ["007", "12"]),
        (["1", "2", "x"] + ["3"] * 200, [1, 2, "x"] + [3] * 200),
        (["2026-11-20T10:00:00+01:00"], ["2026-11-20T10:00:00+01:00"]),
        (["31.12.2026", "1.1.2027"], ["2026-12-31T00:00:00Z", "2027-01-01T00:00:00Z"]),
        (["12/31/2026", "01/02/2027"], ["2026-12-31T00:00:00Z", "2027-01-02T00:00:00Z"]),
        (["20261231"], ["2026-12-31T00:00:00Z"]),
        (
            ["1 Nov 2026", "2026/11/02", "Nov 3, 2026", "04.11.2026 10:30", "05-11-2026", "soon"]
            + ["06.11.2026"] * 50,
            ["2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", "2026-11-03T00:00:00Z",
             "2026-11-04T10:30:00Z", "2026-11-05T00:00:00Z", "soon"]
            + ["2026-11-06T00:00:00Z"] * 50,
        ),
    ],
)  # fmt: skip
def test_cells(written: list[str], read: list[object]) -> None:
    """Numbers and dates are read however they are written; what is neither stays text."""
    import pyarrow as pa

    column = pa.array([value or None for value in written])

    assert read == convert(column, style_of(column.to_pylist()))


def test_delimiters_and_notes(tmp_path: Path) -> None:
    """The delimiter is found; what was read otherwise than written is noted."""
    path = tmp_path / "a.csv"
    path.write_text("betrag;am;fraud\n1,5;1.2.2026;0\n2;13.2.2026;1\n" * 1)
    with closing(FileSource(str(path))) as source:
        values = [value for chunk in source.chunks() for value in chunk.values]

    assert b'{"betrag":1.5,"am":"2026-02-01T00:00:00Z","fraud":0}' == values[0]
    assert ["betrag: numbers are written with a decimal comma"] == source.notes[:1]
    assert "am: dates written as %d.%m.%Y" in source.notes[1]


def test_damaged_files(tmp_path: Path) -> None:
    """Damaged gzip files, cut at any place, and half a UTF-16 character are refused by name."""
    packed = bytearray(gzip.compress(b"a,b\n" + b"1,2\n" * 40_000 + bytes(range(256)) * 99))
    packed[len(packed) // 2 :] = b"\xff" * 64
    whole = "a,b\n1,2\n".encode("utf-16")
    for name, data in (
        ("a.csv.gz", packed),
        ("a.parquet.gz", packed),
        ("b.jsonl.gz", packed[:60]),
        ("c.csv", whole[:-1]),
        ("d.jsonl", whole[:-1]),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(ConfigError, match=rf"{name}: cannot be (read|unpacked).*; name a"):
            values_of(path)


@pytest.mark.parametrize("delimiter", ["||", "", "\n", '"', "§"])
def test_delimiter_is_one_character(tmp_path: Path, delimiter: str) -> None:
    """Another delimiter is refused before anything is read."""
    path = write_csv(tmp_path / "a.csv", rows(5))

    with pytest.raises(ConfigError, match=r"--delimiter .*: is no delimiter; write one ASCII"):
        values_of(path, delimiter)


def test_lines_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no line ends, no more than the longest line is read; returns end lines of CSV."""
    monkeypatch.setattr(byte_streams, "CHUNK_BYTES", 1 << 10)
    monkeypatch.setattr(byte_streams, "LINE_BYTES", 1 << 14)
    old = tmp_path / "old.csv"
    old.write_bytes(b"a,b\r" + b"1,2\r" * 20_000)
    assert 20_000 == len(values_of(old))
    for name, data in (
        ("a.csv", b"x" * 80_000),
        ("b.csv", b"a,b\n" + b"1,2\n" * 30_000 + b"x" * 80_000),
        ("a.jsonl", b'{"a": 1}\r' * 20_000),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(ConfigError, match=rf"{name}: has a line of more than .*; name a"):
            values_of(path)


JSON_ONLY = """
import sys
sys.modules["pyarrow"] = None
from kaboost.service.errors import ConfigError
from kaboost.service.lab import replay
for name in sys.argv[1:]:
    try:
        print(sum(len(chunk.values) for chunk in replay.FileSource(name).chunks()))
    except ConfigError as err:
        print(err)
"""


def test_without_pyarrow(tmp_path: Path) -> None:
    """JSON lines need no extra, packed or not; other files name theirs."""
    names = ["a.jsonl", "a.jsonl.gz", "a.csv", "a.parquet", "a.jsonl.zst"]
    for name, data in zip(
        names, (b'{"a": 1}\n' * 3, gzip.compress(b'{"a": 1}\n'), b"a\n1\n", b"PAR1",
                b"\x28\xb5\x2f\xfd"), strict=True,
    ):  # fmt: skip
        (tmp_path / name).write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", JSON_ONLY, *names],
        cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    lines = done.stdout.splitlines()

    assert ["3", "1"] == lines[:2], done.stderr
    for name, line in zip(names[2:], lines[2:], strict=True):
        assert line.startswith(f"{name}: reading ")
        assert line.endswith("needs pyarrow; run pip install '.[lab]' in the folder of Kaboost")


def test_memory_is_flat(tmp_path: Path) -> None:
    """A file that is much larger than a block takes no more memory than one of few blocks."""
    path = tmp_path / "a.csv"
    with path.open("w") as file:
        file.write("a,b,c\n")
        file.writelines([f"1.5,{'x' * 500},{'y' * 500}\n" * 1000] * 80)  # 80 MB
    with closing(FileSource(str(path))) as source:
        chunks = source.chunks()
        for _ in range(30):
            next(chunks)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        count = sum(len(chunk.values) for chunk in chunks)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    assert count > 60_000
    assert grown < 25_000  # KiB
