"""What a learner goes on with after a rollback: the model of a checkpoint, and positions."""

from collections.abc import Mapping
from typing import Any, Literal

from kaboost.service.kafka.identity import RecordMark
from kaboost.service.learner.trainer import Trainer
from kaboost.service.storage.checkpoints import Checkpoint
from kaboost.service.storage.state import State

Positions = Literal["stay", "back"]
STAY, BACK = POSITIONS = ("stay", "back")


def marks_of(header: Mapping[str, Any]) -> dict[int, RecordMark]:
    """Return the marks of the last records that a checkpoint's header has, by partition."""
    known = header.get("last_records", {}).items()
    return {int(partition): RecordMark(*mark) for partition, mark in known}


def describe(trainer: Trainer) -> dict[str, Any]:
    """Return version, events and offsets of a trainer, for the answer to a command."""
    return {
        "model_version": trainer.numbering.version,
        "events_learned": trainer.events_learned,
        "offsets": {str(p): offset for p, offset in trainer.state.offsets.items()},
    }


def rolled_back(
    checkpoint: Checkpoint, positions: Positions, state: State, now: Trainer
) -> tuple[State, dict[int, RecordMark]]:
    """Return the state to learn on from, and the marks of its last records.

    `back`: the offsets are those of the checkpoint, so that events after it are learned again.
    `stay`: they are those of now, but nowhere before the checkpoint's: no model learns an event
    twice. The ids that were learned go with the positions.
    """
    old, marks = checkpoint.state, marks_of(checkpoint.header)
    if positions == BACK:
        return old._replace(offsets=dict.fromkeys(state.offsets, 0) | old.offsets), marks
    ahead = {p for p, offset in old.offsets.items() if offset > state.offsets.get(p, 0)}
    offsets = state.offsets | {p: old.offsets[p] for p in ahead}
    marks = {p: mark for p, mark in marks.items() if p in ahead} | {
        p: mark for p, mark in now.marks[0].items() if p not in ahead
    }
    return old._replace(offsets=offsets, ids=old.ids if ahead else state.ids), marks
