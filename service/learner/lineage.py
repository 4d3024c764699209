"""What a checkpoint has besides the state: what was read, and how it was numbered."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kaboost.service.kafka.identity import Identity, RecordMark
from kaboost.service.storage.snapshots import Numbering


class Lineage(NamedTuple):
    """What a checkpoint has besides the state: what was read, and how it was numbered."""

    identity: Identity = Identity()  # of the topic of events
    marks: Mapping[int, RecordMark] = {}
    numbering: Numbering = Numbering()  # of the last snapshot
    new_names: Mapping[str, Any] = {}  # of features: how many came, and those on trial
    changes: Sequence[str] = ()  # of the configuration, that the state has taken over
    annotations: Sequence[Sequence[Any]] = ()  # of the history
