"""What the command line lists (settings, parts of models, checkpoints) as rows of plain values."""

from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kaboost.models import catalogue
from kaboost.models.types import Component
from kaboost.service.config.settings import Settings, origins, values
from kaboost.service.errors import CheckpointError, ConfigError, Incompatible
from kaboost.service.storage import checkpoints, files

Row = dict[str, Any]
START = b'{"__metadata__":{"kaboost":'  # of every file of ours, after its eight bytes of length


def setting_rows(settings: Settings) -> list[Row]:
    """List every effective setting with its value and origin."""
    where = origins(settings)
    return [
        {"key": ".".join(path), "value": value, "origin": where[path]}
        for path, value in values(settings).items()
    ]


def check_client(settings: Settings) -> None:
    """Let librdkafka itself judge its keys, with no address to connect to."""
    keys: dict[str, str | int | float | bool] = {**settings.kafka.client(), "log_level": 0}
    keys["bootstrap.servers"] = ""
    try:
        AdminClient(keys)
    except KafkaException as err:
        raise ConfigError(
            f"kafka.extra: {err.args[0].str()}; librdkafka's CONFIGURATION.md lists its keys"
        ) from err


def part_rows() -> list[Row]:
    """List every kind of rule, bank and loss in a line, then each of its parameters."""
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


def checkpoint_rows(directory: Path) -> list[Row]:
    """Read every checkpoint wholly, the newest first."""
    return [_checkpoint_row(path) for path in checkpoints.listing(directory)]


def newest_checkpoint(directory: Path) -> Path:
    """Find the newest file of the newest run."""
    path = next(checkpoints.listing(directory), None)
    if path is None:
        raise CheckpointError(
            f"there is no checkpoint in {directory}: start a learner, or set checkpoints.directory"
        )
    return path


def checkpoint_details(path: Path) -> list[Row]:
    """List the header of a checkpoint, then its arrays."""
    try:
        header, arrays = files.read(path)
    except FileNotFoundError as err:
        raise CheckpointError(f"{path} is not there: `checkpoints list` names the files") from err
    except CheckpointError as err:
        if is_ours(path):
            raise
        raise Incompatible(
            f"{path} is not a Kaboost file: `checkpoints list` names those there are"
        ) from err
    told = [{"key": key, "value": value} for key, value in header.items()]
    return told + [
        {"key": name, "value": f"{array.dtype} {list(array.shape)}"}
        for name, array in sorted(arrays.items())
    ]


def is_ours(path: Path) -> bool:
    """Say whether a file begins as those of ours do, as far as it goes."""
    with path.open("rb") as file:
        return START.startswith(file.read(8 + len(START))[8:])


def _checkpoint_row(path: Path) -> Row:
    row = {
        "file": str(path),
        "bytes": path.stat().st_size,
        "created": "",
        "events": "",
        "offsets": "",
    }
    try:
        found = checkpoints.load(path)
    except CheckpointError as err:
        foreign = isinstance(err, Incompatible) or not is_ours(path)
        return {**row, "state": "foreign" if foreign else "damaged", "reason": str(err)}
    told = found.header
    return {
        **row,
        "created": told.get("created", ""),
        "events": told.get("events_learned", ""),
        "offsets": told["offsets"],
        "state": "ok",
        "reason": "",
    }
