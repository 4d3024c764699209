"""The bytes of an input: a file or standard input, unpacked, counted, and as UTF-8."""

import codecs
import gzip
import io
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from kaboost.service.errors import ConfigError
from kaboost.service.lab.extras import missing_extra

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
CHUNK_BYTES = 1 << 20
LINE_BYTES = 16 << 20  # of the longest line: memory is bounded
STDIN = "-"
FALLBACK = "cp1252"  # of lines that are not UTF-8; what it lacks is read as Latin-1
WIDE = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class Counted(io.RawIOBase):
    """A stream of bytes that counts what was read of it."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__()
        self._raw = raw
        self.count = 0

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, and count."""
        data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        self.count += len(data)
        return len(data)


class Input:
    """An opened input: its bytes unpacked, how many there are, and how many were read.

    Raises
    ------
    ConfigError
        If there is no such file, or it cannot be read.
    """

    def __init__(self, name: str) -> None:
        self.name = "standard input" if name == STDIN else name
        self.total: int | None = None
        try:
            raw: IO[bytes] = sys.stdin.buffer if name == STDIN else Path(name).open("rb")  # noqa: SIM115
            if name != STDIN:
                self.total = Path(name).stat().st_size
        except OSError as err:
            raise ConfigError(
                f"{name}: cannot be read: {err.strerror}; name a file, - for standard input, or "
                "kafka://TOPIC"
            ) from err
        self._raw = raw if name != STDIN else None
        self._counted = Counted(raw)
        packed = io.BufferedReader(self._counted, CHUNK_BYTES)
        self.is_packed = packed.peek(4)[:4].startswith((GZIP, ZSTD))
        self.stream: IO[bytes] = _unpacked(packed, self.name)

    @property
    def read_bytes(self) -> int:
        """How many bytes of the input were read, packed as they are."""
        return self._counted.count

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._raw is not None:
            self._raw.close()

    def seekable(self) -> IO[bytes]:
        """Return the input as a file that can be read in any order: a temporary copy if need be."""
        if self.total is not None and not self.is_packed:
            return Path(self.name).open("rb")
        with ExitStack() as stack:
            copy = stack.enter_context(tempfile.TemporaryFile())
            self._unpack_to(copy)
            stack.pop_all()  # the reader closes it
        copy.seek(0)
        return copy

    def _unpack_to(self, copy: IO[bytes]) -> None:
        try:
            shutil.copyfileobj(self.stream, copy, CHUNK_BYTES)
        except gzip.BadGzipFile:
            raise  # the input is damaged, the disk is not
        except OSError as err:
            raise ConfigError(
                f"{self.name}: a packed file of columns is unpacked to {tempfile.gettempdir()} "
                f"first: {err.strerror}; set TMPDIR to a folder with room, or unpack it yourself"
            ) from err


def _unpacked(packed: Any, name: str) -> IO[bytes]:
    """Return a stream of the bytes that gzip or zstd packed, or as they are."""
    head = packed.peek(4)[:4]
    if head.startswith(GZIP):
        return io.BufferedReader(gzip.GzipFile(fileobj=packed), CHUNK_BYTES)
    if head.startswith(ZSTD):
        try:
            import pyarrow
        except ImportError as err:
            raise missing_extra(f"{name}: reading zstd", "lab", err) from err
        unpacked = pyarrow.CompressedInputStream(pyarrow.PythonFile(packed, "r"), "zstd")
        return io.BufferedReader(Counted(unpacked), CHUNK_BYTES)
    plain: IO[bytes] = packed
    return plain


class Utf8Stream:
    """Text in UTF-8 without a byte order mark, whatever it was written in; lines stay lines.

    A line that is not UTF-8 is read as Windows-1252, and counted: files that several programs have
    appended to have both.

    Raises
    ------
    ConfigError
        By what reads, at a line that is longer than LINE_BYTES.
    """

    def __init__(self, raw: IO[bytes], name: str = "input") -> None:
        self._raw, self._name = raw, name
        self._ready = b""
        self._rest = b""  # the line that is not complete yet
        self._decoder: codecs.IncrementalDecoder | None = None
        self.fallback_lines = 0
        self.closed = False
        self._begin()

    def _begin(self) -> None:
        head = self._raw.read(4) or b""
        for mark, name in WIDE.items():
            if head.startswith(mark):
                self._decoder = codecs.getincrementaldecoder(name)()
        self._rest = head.removeprefix(codecs.BOM_UTF8)
        if self._decoder is not None:
            self._rest = self._decoder.decode(head).encode()

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def writable(self) -> bool:
        """Return that it cannot be written."""
        return False

    def seekable(self) -> bool:
        """Return that it is read in order."""
        return False

    def close(self) -> None:
        """Take note that the reader is done."""
        self.closed = True

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes, none at the end."""
        while (size < 0 or len(self._ready) < size) and self._fill():
            pass
        size = len(self._ready) if size < 0 else size
        data, self._ready = self._ready[:size], self._ready[size:]
        return data

    def peek(self, size: int) -> bytes:
        """Return the first bytes that `read` will return."""
        while len(self._ready) < size and self._fill():
            pass
        return self._ready[:size]

    def lines(self) -> Iterator[bytes]:
        """Yield the lines, each with its end, which is a newline."""
        while True:
            first = 0
            while end := self._ready.find(b"\n", first) + 1:
                yield self._ready[first:end]
                first = end
            self._ready = self._ready[first:]
            self._check_length(self._ready)
            if not self._fill():
                break
        if self._ready:
            yield self._ready
        self._ready = b""

    def _fill(self) -> bool:
        """Make some more lines ready; return false at the end."""
        data = self._raw.read(CHUNK_BYTES)
        if not data:
            if self._decoder is not None:
                self._decoder.decode(b"", final=True)  # raises for half a character
            at_end = bool(self._rest)
            self._ready += self._clean(self._rest)
            self._rest = b""
            return at_end
        if self._decoder is not None:
            data = self._decoder.decode(data).encode()
        whole = self._rest + data
        end = max(whole.rfind(b"\n"), whole.rfind(b"\r")) + 1  # old files have returns alone
        self._ready += self._clean(whole[:end])
        self._rest = whole[end:]
        self._check_length(self._rest)
        return True

    def _check_length(self, line: bytes) -> None:
        if len(line) > LINE_BYTES:
            raise ConfigError(
                f"{self._name}: has a line of more than {LINE_BYTES >> 20} MiB; name a text file "
                "with a record a line: tr '\\r' '\\n' converts returns, jq -c '.[]' a JSON array"
            )

    def _clean(self, data: bytes) -> bytes:
        try:
            str(data, "utf-8")
        except UnicodeDecodeError:
            return b"".join(map(self._clean_line, data.splitlines(keepends=True)))
        return data

    def _clean_line(self, line: bytes) -> bytes:
        try:
            str(line, "utf-8")
        except UnicodeDecodeError:
            self.fallback_lines += 1
            try:
                return str(line, FALLBACK).encode()
            except UnicodeDecodeError:
                return str(line, "latin-1").encode()
        return line
