"""The files that the learner writes for the page: whole or empty, whoever writes meanwhile."""

import threading
from pathlib import Path

import pytest

from kaboost.models.evaluation.history import new_history
from kaboost.service.errors import NotWritten
from kaboost.service.storage.live import FIGURES, HEAD, HISTORY, LiveFiles


def test_a_reader_sees_one_whole_content(tmp_path: Path) -> None:
    """Contents of different lengths are written all the time: none is half of two."""
    files, stop = LiveFiles(tmp_path), threading.Event()
    contents = [{"text": letter * size} for letter, size in (("a", 50_000), ("b", 3), ("c", 9_000))]
    files.write(FIGURES, contents[0])

    def write() -> None:
        while not stop.is_set():
            for values in contents:
                files.write(FIGURES, values)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        found = [files.read(FIGURES) for _ in range(300)]
    finally:
        stop.set()
        thread.join()

    assert all(values in [*contents, {}] for values in found)
    assert any(found)


def test_nothing_of_before_stays_behind(tmp_path: Path) -> None:
    """What was shown once may be private now."""
    files = LiveFiles(tmp_path)
    files.write(FIGURES, {"text": "secret" * 100})
    files.write(FIGURES, {})

    assert HEAD.size + 2 == (tmp_path / FIGURES).stat().st_size


def test_damaged_files_are_empty(tmp_path: Path) -> None:
    """Missing, cut, and with another checksum."""
    files = LiveFiles(tmp_path)
    assert {} == files.read(FIGURES)
    files.write(FIGURES, {"x": 1})
    whole = (tmp_path / FIGURES).read_bytes()
    for damaged in (b"", whole[:-1], whole[:-2] + b"2}", b"\xff" * 40):
        (tmp_path / FIGURES).write_bytes(damaged)
        assert {} == files.read(FIGURES)


def test_the_history_comes_back(tmp_path: Path) -> None:
    """As many points as there are; none without a file."""
    files, history = LiveFiles(tmp_path), new_history()
    assert (0, 8) == files.read_history().shape
    history.when[:2], history.counts[0] = [[25.0, 1.0], [50.0, 2.0]], 2
    files.write_history(history)

    assert history.table().tobytes() == files.read_history().tobytes()
    assert (tmp_path / HISTORY).exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """With the remedy."""
    (tmp_path / "file").write_text("")
    with pytest.raises(NotWritten, match="file cannot be made"):
        LiveFiles(tmp_path / "file").write(FIGURES, {})
