"""Which features expire in one batch where they are learned with a label of their own."""

import math
from collections.abc import Iterator, Sequence

from kaboost.service.storage.waiting import Entry, WaitingStore

SHARE = 0.7  # of the usual ratio of expired to joined pairs, while nothing is overdue
HASTE = 20.0  # of that ratio more for each `labels.wait` by which the oldest is overdue
FEW = 4  # features that may always expire in a batch, also in one without labels
REMEMBERED = 5000.0  # joined pairs over which the ratio is taken
MAX_ROUNDS = 5  # of a batch's length each, so that heartbeats come between


class ExpiryPace:
    """Keep expired features near their usual share of what is learned.

    The watermark waits for the slowest partition and then jumps, so that many features are overdue
    at once and then none. All of them have the same label, and a model that follows changes would
    take every block, and every gap, for a change. So they expire in proportion to the labels that
    come, and faster the longer the oldest is overdue: on average it is so for 1.5 % of
    `labels.wait`, a stock for the batches in which the watermark stands still.
    """

    def __init__(self, wait: float, ratio: float, *, is_paced: bool) -> None:
        self._wait = wait  # seconds
        self.ratio = ratio  # expired pairs for each joined one; 0 before the first expired
        self._is_paced = is_paced  # otherwise all that is overdue expires: it is not learned

    def due(
        self, store: WaitingStore, before: float, batch: int, joined: int, all_joined: int
    ) -> Iterator[tuple[Sequence[Entry], Sequence[Entry]]]:
        """Return features older than a time that are to expire now, and those whose held label is
        to be learned; the caller marks both before the next ones are asked for.

        batch: how many at a time; joined: labels that joined in this batch, all_joined: and ever.
        """
        left, expired = MAX_ROUNDS * batch, 0
        for turn in range(MAX_ROUNDS):
            until, old = before, store.oldest_waiting(before, batch)
            if turn == 0 and old and self._is_paced:
                left = self._allowed(store, before - old[0].time, joined, all_joined)
            if len(old) >= min(left, batch):
                old = old[:left]
                until = old[-1].time
            held = store.oldest_held(until, min(left, batch))
            if not old and not held:
                break
            yield old, held
            expired += len(old)
            left -= len(old) + len(held)
            if left <= 0:
                break
        if self.ratio > 0.0:
            self._note(joined, expired)

    def _allowed(self, store: WaitingStore, overdue: float, joined: int, all_joined: int) -> int:
        if self.ratio == 0.0:  # those that wait say how many to expect
            self.ratio = (store.waiting + 1.0) / (all_joined + 1.0)
        return self.limit(joined, overdue / self._wait)

    def limit(self, joined: int, behind: float) -> int:
        """Return how many features may expire in a batch in which so many labels joined.

        behind: how long the oldest is overdue, as a share of `labels.wait`.
        """
        haste = HASTE * behind
        return math.ceil(self.ratio * joined * (SHARE + haste) + FEW * (1.0 + haste) ** 2)

    def _note(self, joined: int, expired: int) -> None:
        kept = math.exp(-joined / REMEMBERED)
        self.ratio = self.ratio * kept + expired / REMEMBERED
