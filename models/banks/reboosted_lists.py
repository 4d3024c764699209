"""Rows of a growing tree as lists of what is there: of wide, mostly empty events, most is not.

Where a row is dense it has a byte for every chosen column. Listed, it has three bytes for every
column that is there: its number among the chosen ones, low byte first, and its code. The sum of
what is missing is what is left of the sum over all rows. The trees are the same to the bit, and the
cost model counts as if rows were dense: what lists save is not spent on more trees.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from models.banks.reboosted_state import LISTABLE, MISSING
from models.types import PLACE
from models.verbs import inlined, kernel

LISTED = 18  # place in Work.at: whether rows of this tree may be lists
PART = 8  # what is there of LISTABLE columns or more is at most this part, for rows to be listed
BYTES = 3  # of one that is there
WORDS, FOUND = 26, 224  # words that are searched together, and where they are put: Work.places
EMPTY = PLACE(0x3F3F3F3F3F3F3F3F)  # eight codes of what is missing


@kernel
def worth_listing(filled: float, columns: int, d: int) -> bool:
    """Return whether to list rows of so many columns, of d, where `filled` are usually there."""
    return columns >= LISTABLE and filled * PART <= d


@kernel
def place_columns(work: Any, columns: int) -> None:
    """Note where among the chosen columns each of all is; -1 for one that is not chosen."""
    for j in range(work.spots.shape[0]):
        work.spots[j] = -1
    for c in range(columns):
        work.spots[work.columns[c]] = c


@inlined
def list_row(codes: Any, words: Any, work: Any, where: Any) -> bool:
    """Write a row as a list of an event's codes; return False where there are too many.

    `codes` are those of all events, one after another, and `words` the same, eight in one; `where`
    are the event's place, the row's, and how many columns are chosen of how many.
    """
    s, i, columns, d = where
    begin, end = PLACE(s * d), PLACE(s * d + d)
    event, places, listed = codes[begin:end], work.places, work.codes[i * columns :]
    first, last = (begin + PLACE(7)) // PLACE(8), end // PLACE(8)  # whole words
    n, found = 0, _find(event, PLACE(0), first * PLACE(8) - begin, 0, places)
    while n >= 0:
        stop = min(first + PLACE(WORDS), last)
        before = first * PLACE(8) - begin
        for hit in range(FOUND, FOUND + _search(words[first:stop], places)):
            j = before + PLACE(places[hit]) * PLACE(8)
            found = _find(event, j, j + PLACE(8), found, places)
        if stop == last:
            found = _find(event, last * PLACE(8) - begin, end - begin, found, places)
        how = (found, columns // BYTES)
        n = _list_some(event, listed, (work.spots, work.starts, work.narrow), places, how, n)
        if stop == last:
            break
        first, found = stop, 0
    work.held[i] = n
    return bool(n >= 0)


@kernel
def _search(words: Any, places: Any) -> int:
    """Put from FOUND on which of some words hold something; return how many do.

    No branch depends on what a word holds: it would be mispredicted wherever something is there.
    """
    hits = FOUND
    for word in range(PLACE(words.shape[0])):
        places[hits] = word
        hits += words[word] != EMPTY
    return hits - FOUND


@kernel
def _find(event: Any, first: Any, last: Any, n: int, places: Any) -> int:
    """Put after n places which of some codes of an event are there; return how many there are."""
    for j in range(first, last):
        places[n] = j
        n += event[j] != MISSING
    return n


@inlined
def _list_some(event: Any, listed: Any, chosen: Any, places: Any, how: Any, n: int) -> int:
    """Write what of an event's codes was found after the n that are in the list of a row; return
    how many are in it then, or -1 where there are too many.
    """
    (found, room), (spots, starts, narrow) = how, chosen
    for place in range(found):
        j = PLACE(places[place])
        c = np.int64(spots[j])
        if c >= 0 and n >= 0:
            if n == room:
                n = -1
            else:
                most = np.int64(starts[c + 1] - starts[c]) - 1
                code = min(np.int64(event[j]) >> narrow[c], most)
                listed[BYTES * n], listed[BYTES * n + 1] = c & 255, c >> 8
                listed[BYTES * n + 2] = code
                n += 1
    return n


@kernel
def count_lists(table: Any, work: Any, span: Any, columns: int) -> None:
    """Add the rows order[first:last] to a histogram; of what is missing, only that of dense ones:
    `fill_missing` comes after.
    """
    first, last = span
    starts = work.starts
    for i in range(first, last):
        r = work.order[i]
        row, packed = work.codes[r * columns : (r + 1) * columns], work.packed[r]
        if work.held[r] < 0:
            for j in range(columns):
                table[starts[j] + row[j]] += packed
            continue
        for n in range(work.held[r]):
            c = int(row[BYTES * n]) + (int(row[BYTES * n + 1]) << 8)
            table[int(starts[c]) + int(row[BYTES * n + 2])] += packed


@kernel
def fill_missing(table: Any, work: Any, whole: int, span: Any) -> None:
    """Put what is left of `whole`, the sum of all rows, into the last place of some columns."""
    for j in range(span[0], span[1]):
        first, missing = int(work.starts[j]), int(work.starts[j + 1]) - 1
        here = 0
        for cell in range(first, missing):
            here += table[cell]
        table[missing] = whole - here


@kernel
def part_lists(work: Any, node: Any, cut: Any, missing: int) -> int:
    """Do for rows that may be lists what parts dense ones: `reboosted_grow.part`."""
    column, b, lost, columns = cut
    left, right = int(node[0]), 0
    for i in range(int(node[0]), int(node[1])):
        r = work.order[i]
        code = _code(work, r, columns, column, missing)
        goes = (code <= b) | (code == lost)
        work.order[left] = r
        work.spare[right] = r
        left += goes
        right += 1 - goes
    for i in range(right):
        work.order[left + i] = work.spare[i]
    return left


@kernel
def _code(work: Any, r: int, columns: int, column: int, missing: int) -> int:
    """Return the code of row r in a chosen column."""
    row = work.codes[r * columns : (r + 1) * columns]
    if work.held[r] < 0:
        return int(row[column])
    low, high = column & 255, column >> 8
    for n in range(work.held[r]):
        if row[BYTES * n] == low and row[BYTES * n + 1] == high:
            return int(row[BYTES * n + 2])
    return missing
