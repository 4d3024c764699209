"""The number of a process: of no other on the machine, and the same again after its end."""

import os
import tempfile
from pathlib import Path

import pytest

from kaboost.service.errors import ConfigError
from kaboost.service.storage.slot import process_slot


def test_numbers_are_free_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowest that is free; another kind has its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with process_slot("a") as first, process_slot("a") as second, process_slot("b") as other:
        assert (0, 1, 0) == (first, second, other)
    with process_slot("a") as again:
        assert 0 == again


def test_a_killed_process_frees_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel does."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    child = os.fork()
    if not child:
        with process_slot("a"):
            os._exit(9)
    os.waitpid(child, 0)

    with process_slot("a") as slot:
        assert 0 == slot


def test_without_a_folder_a_name_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the setting."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))

    with pytest.raises(ConfigError, match=r"score\.instance: is not set"), process_slot("a"):
        pass
