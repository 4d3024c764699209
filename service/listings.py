"""The tables of the command line (settings, parts of models, checkpoints) as plain values."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kaboost.models import catalogue
from kaboost.models.types import Component
from kaboost.service.config.settings import Settings, origins, values
from kaboost.service.errors import CheckpointError, ConfigError, Incompatible
from kaboost.service.storage import checkpoints, files, kept
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.stores import readable_folder

Row = dict[str, Any]
HEADER_START = b'{"__metadata__":{"kaboost":'  # of every Kaboost file, after 8 bytes of length


def setting_rows(settings: Settings) -> list[Row]:
    """List every effective setting with its value and origin."""
    origin = origins(settings)
    return [
        {"key": ".".join(path), "value": value, "origin": origin[path]}
        for path, value in values(settings).items()
    ]


def check_client(settings: Settings) -> None:
    """Let librdkafka check the keys of `kafka.extra`."""
    check_keys(settings.kafka.client(), "kafka.extra")


def check_keys(client: Mapping[str, str], where: str) -> None:
    """Let librdkafka check the keys of a client, without an address to connect to."""
    keys: dict[str, str | int | float | bool] = {**client, "log_level": 0}
    keys["bootstrap.servers"] = ""
    try:
        AdminClient(keys)
    except KafkaException as err:
        raise ConfigError(
            f"{where}: {err.args[0].str()}; librdkafka's CONFIGURATION.md lists its keys"
        ) from err


def part_rows() -> list[Row]:
    """List every kind of rule, bank and loss, each followed by its parameters."""
    return [row for word, part in catalogue.entries() for row in _part_rows(word, part)]


def _part_rows(word: str, part: Component) -> list[Row]:
    fits = f"; fits {part.traits.task}" if part.traits.task else ""
    head = {"part": word, "kind": part.kind, "parameter": "", "default": "", "values": ""}
    return [
        {**head, "about": f"{part.summary}{fits} ({part.source})"},
        *(
            {
                **head,
                "parameter": param.name,
                "default": param.default,
                "values": catalogue.values(param),
                "about": param.doc,
            }
            for param in part.params
        ),
    ]


def checkpoint_rows(settings: Settings) -> list[Row]:
    """Read every checkpoint completely, the newest first; those of an object store by their URL."""
    place = settings.checkpoints.directory
    with readable_folder(settings.checkpoints) as folder:
        paths = [*FolderCheckpointStore(folder).paths(), *kept.paths(folder, checkpoints.KIND)]
        rows = [_checkpoint_row(path) for path in paths]
    if isinstance(place, str):
        for row in rows:
            row["file"] = row["file"].replace(str(folder), place.rstrip("/"))
    return rows


def chosen_checkpoint(folder: Path, settings: Settings, chosen: Path | None) -> Path:
    """Return a file that was named, below the folder or anywhere, or else the newest one."""
    if chosen is not None:
        return folder / chosen if (folder / chosen).exists() else chosen
    path = next(FolderCheckpointStore(folder).paths(), None)
    if path is None:
        raise CheckpointError(
            f"there is no checkpoint in {settings.checkpoints.directory}: start a learner, or set "
            "checkpoints.directory"
        )
    return path


def checkpoint_details(path: Path) -> list[Row]:
    """List the header of a checkpoint, then its arrays."""
    header, arrays = read_checkpoint(path)
    fields = [{"key": key, "value": value} for key, value in header.items()]
    return fields + [
        {"key": name, "value": f"{array.dtype} {list(array.shape)}"}
        for name, array in sorted(arrays.items())
    ]


def read_checkpoint(path: Path) -> tuple[dict[str, Any], files.Arrays]:
    """Read header and arrays of a file; refuse one that is not ours, or not there."""
    try:
        return files.read(path)
    except FileNotFoundError as err:
        raise CheckpointError(f"{path} does not exist: `checkpoints list` lists the files") from err
    except CheckpointError as err:
        if is_ours(path):
            raise
        raise Incompatible(
            f"{path} is not a Kaboost file: `checkpoints list` lists the files"
        ) from err


def last_two(folder: Path, settings: Settings) -> tuple[Path, Path]:
    """Find the two newest files of the newest run, the older one first."""
    newest = chosen_checkpoint(folder, settings, None)
    older = next((path for path in FolderCheckpointStore(folder).paths() if path < newest), None)
    if older is None:
        raise CheckpointError(f"{newest} is the only checkpoint: name two files to compare")
    return older, newest


def is_ours(path: Path) -> bool:
    """Whether a file starts like a Kaboost file, as far as it goes."""
    if not path.exists():
        return True  # a dangling link; it has one of our names
    with path.open("rb") as file:
        return HEADER_START.startswith(file.read(8 + len(HEADER_START))[8:])


def _checkpoint_row(path: Path) -> Row:
    row = {
        "file": str(path),
        "bytes": path.stat().st_size if path.exists() else 0,  # a dangling link has none
        "created": "",
        "events": "",
        "offsets": "",
    }
    try:
        header = checkpoints.load(path).header
    except CheckpointError as err:
        foreign = isinstance(err, Incompatible) or not is_ours(path)
        return {**row, "state": "foreign" if foreign else "damaged", "reason": str(err)}
    return {
        **row,
        "created": header.get("created", ""),
        "events": header.get("events_learned", ""),
        "offsets": header["offsets"],
        "state": "ok",
        "reason": "",
    }
