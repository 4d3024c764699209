"""How many features may expire in one batch."""

import math
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kaboost.service.learner.expiry_pace import FEW, ExpiryPace
from kaboost.service.storage.waiting import EXPIRED, NewEntry, WaitingStore

WAIT = 50_000.0  # seconds; one feature comes a second


def expire(pace: ExpiryPace, store: WaitingStore, before: float, joined: int, ever: int) -> int:
    """Expire what is due in one batch; return how many features that are."""
    count = 0
    for old, _ in pace.due(store, before, 128, joined, ever):
        store.mark([each.number for each in old], EXPIRED, [math.nan] * len(old))
        count += len(old)
    return count


def store_of(folder: Path, count: int) -> WaitingStore:
    """Return a store in which so many features wait, one of each second."""
    store = WaitingStore(folder, 2**24)
    store.begin(0)
    store.add([NewEntry(str(k), float(k), 1.0, b"") for k in range(count)])
    return store


def test_jumps_of_the_watermark_are_levelled(tmp_path: Path) -> None:
    """The watermark jumps by 1,000 s every tenth batch: after the first jumps each batch has its
    share of them.
    """
    store, pace = store_of(tmp_path, 30_000), ExpiryPace(WAIT, 1.0, is_paced=True)
    counts = [expire(pace, store, 1000.0 * (k // 10), 100, 10_000) for k in range(1, 250)]
    store.close()

    assert all(60 <= count <= 160 for count in counts[100:])
    assert 0.95 * 24_000 <= sum(counts) <= 24_000


def test_the_first_that_expire_are_expected_by_those_that_wait(tmp_path: Path) -> None:
    """Of 1,000 features 9 had a click: a batch of two clicks has about 200 without."""
    store, pace = store_of(tmp_path, 991), ExpiryPace(WAIT, 0.0, is_paced=True)
    expired = expire(pace, store, 2000.0, 2, 9)
    store.close()

    assert 140 <= expired <= 400


def test_features_that_are_not_learned_expire_at_once(tmp_path: Path) -> None:
    """Nothing is to be levelled then: as many as fit between two heartbeats."""
    store, pace = store_of(tmp_path, 2000), ExpiryPace(WAIT, 0.0, is_paced=False)
    expired = [expire(pace, store, 1900.0, 0, 10) for _ in range(4)]
    store.close()

    assert expired == [640, 640, 620, 0]


@given(
    ratio=st.floats(0.0, 1e4), joined=st.integers(0, 1000), behind=st.floats(0.0, 10.0)
)  # fmt: skip
def test_more_expire_the_longer_they_are_overdue(ratio: float, joined: int, behind: float) -> None:
    """Nothing waits for ever, also where no label comes any more."""
    pace = ExpiryPace(WAIT, ratio, is_paced=True)

    limit = pace.limit(joined, 0.0)

    assert limit >= FEW
    assert pace.limit(joined, behind) >= limit * (1.0 + 20.0 * behind) - 1.0


def test_another_ratio_is_followed(tmp_path: Path) -> None:
    """Nine of ten labels stay away from now on: what is overdue does not grow without end."""
    store, pace = store_of(tmp_path, 40_000), ExpiryPace(WAIT, 1.0, is_paced=True)
    counts = [expire(pace, store, 90.0 * k, 10, 10_000) for k in range(400)]
    store.close()

    assert sum(counts[-50:]) >= 0.9 * 50 * 90
    assert sum(counts) >= 90 * 400 - 3000
