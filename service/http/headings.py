"""The headings of a service: when each is shown, how bad it is, what it says, and what to do.

The table is the whole rule. It is in the order of severity; among headings of one level a cause
comes before what follows from it. All that apply are reported; the first one is the heading. Of the
good ones it is one, where nothing is wrong.
docs/how-to/read-the-page.md has the same table for readers.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from kaboost.service.http.situation import Situation

Level = Literal["good", "warning", "bad"]
# The reason, perhaps an empty one, where a heading applies; None where it does not.
When = Callable[[Situation], str | None]


class Heading(NamedTuple):
    """One row of the table."""

    state: str
    level: Level
    when: When
    remedy: str = ""


class State(NamedTuple):
    """A heading that applies now, and why."""

    state: str
    level: Level
    reason: str
    remedy: str


def states(now: Situation) -> list[State]:
    """Return all headings that apply, the worst first; there is at least one."""
    found = [(heading, heading.when(now)) for heading in HEADINGS]
    applying = [
        State(heading.state, heading.level, reason, heading.remedy)
        for heading, reason in found
        if reason is not None
    ]
    return [each for each in applying if each.level != "good"] or applying[:1]


def _nothing(now: Situation) -> str | None:
    return now.reason if now.learns_nothing else None


def _stopped(now: Situation) -> str | None:
    return f"{now.learner.reason}; {now.answers}" if now.state == "stopped" else None


def _restarting(now: Situation) -> str | None:
    again = now.is_loading and now.learner.reason.startswith("restarted after")
    return f"{now.learner.reason}; {now.answers}" if now.state == "restarting" or again else None


def _silent(now: Situation) -> str | None:
    if not now.is_silent or now.is_loading or now.state in ("stopped", "restarting"):
        return None
    return f"the learner gives no sign of life for {now.silent_seconds:,.0f} s; {now.answers}"


def _rejected(now: Situation, level: Level) -> str | None:
    seen = now.symptoms.get("rejected")
    found = seen if seen and seen["level"] == level else None
    problem = now.condition.problem if level == "bad" else ""
    words = found["text"] if found else problem  # the problem quotes what a record holds
    return f"{words}; they are kept in the topic {now.dead_letters}" if words else None


def _labels(now: Situation, state: str) -> str | None:
    silence = now.symptoms.get("labels")
    return silence["text"] if silence and silence["state"] == state else None


def _stale(now: Situation) -> str | None:
    waits = now.condition.paused or now.is_loading
    explained = waits or now.is_silent or now.learns_nothing or now.condition.problem
    if not now.stale or explained or now.state in ("stopped", "restarting", "stalled"):
        return None
    return now.reason or "no heartbeat of the learner was seen"


def _starting(now: Situation) -> str | None:
    is_first = now.is_loading and _restarting(now) is None
    return f"the learner is loading; {now.answers}" if is_first else None


def _compiling(now: Situation) -> str | None:
    return (now.condition.compiling or None) if now.learner.is_alive else None


def _broken(now: Situation) -> str | None:
    return "; ".join(now.broken_features) or None


def _changed(now: Situation) -> str | None:
    return now.rise.text if now.rise and not now.rise.is_over else None


def _cold(now: Situation) -> str | None:
    return None if now.events_learned else "no event was learned yet"


def _awaited(now: Situation) -> str | None:
    return _labels(now, "awaited") if _is_idle(now) else None


def _waiting(now: Situation) -> str | None:
    return _learning(now) if _is_idle(now) else None


def _is_idle(now: Situation) -> bool:
    """Whether nothing is learned, of which a heartbeat that is late says nothing."""
    return now.learner.is_alive and not now.events_per_second


def _learning(now: Situation) -> str:
    recovered = now.rise.text if now.rise and now.rise.is_over else ""
    return now.reason or recovered


LOG = "the log has what came before it; kaboost doctor checks broker, topics and folders"
LABELS = "look at what writes to labels.topic"
LETTERS = (
    "see the reasons under Dead letters or with kaboost dlq list, repair the producer or the "
    "settings, then kaboost dlq replay"
)
HEADINGS: tuple[Heading, ...] = (
    Heading("nothing can be learned", "bad", _nothing, LETTERS),
    Heading("learner stopped", "bad", _stopped, f"repair the cause, then start it again; {LOG}"),
    Heading("learner restarting", "bad", _restarting, f"if it comes again and again: {LOG}"),
    Heading(
        "learner gives no sign of life",
        "bad",
        _silent,
        "it is killed and started again after 30 s; if nothing starts it, start kaboost serve or "
        "kaboost learner",
    ),
    Heading("records are rejected", "bad", lambda now: _rejected(now, "bad"), LETTERS),
    Heading(
        "stalled",
        "bad",
        lambda now: f"{now.condition.stalled}; {now.answers}" if now.state == "stalled" else None,
        "see KaboostLearnerStalled in the runbook; nothing is lost meanwhile",
    ),
    Heading(
        "labels have stopped",
        "bad",
        lambda now: _labels(now, "stopped"),
        f"{LABELS}; events that wait are learned once their labels come, within labels.wait",
    ),
    Heading(
        "falling back",
        "bad",
        lambda now: now.condition.fallback if now.fallback else None,
        "see KaboostServingFallback in the runbook",
    ),
    Heading("stale", "bad", _stale, LOG),
    Heading(
        "paused",
        "warning",
        lambda now: now.condition.paused or None,
        "kaboost resume, or the button Resume below, goes on",
    ),
    Heading("learner starting", "warning", _starting),
    Heading("compiling", "warning", _compiling, "it ends by itself, and later starts are quick"),
    Heading("no model yet", "warning", lambda now: None if now.is_served else now.reason, LOG),
    Heading(
        "a feature is broken",
        "warning",
        _broken,
        "look at what writes this feature: a producer, a join, a unit; predictions suffer until it "
        "is as before",
    ),
    Heading("some records are rejected", "warning", lambda now: _rejected(now, "warning"), LETTERS),
    Heading(
        "the relation has changed",
        "warning",
        _changed,
        "the model learns the new relation by itself; if the loss stays high, look for what has "
        "changed in the world, in labels or in a feature that is not sent",
    ),
    Heading("labels are late", "warning", lambda now: _labels(now, "late"), LABELS),
    Heading("no label yet", "warning", lambda now: _labels(now, "none yet"), LABELS),
    Heading("cold", "warning", _cold, "it learns from the first labelled event on"),
    Heading("waiting for labels", "good", _awaited),
    Heading("waiting for events", "good", _waiting),
    Heading("learning", "good", _learning),
)
