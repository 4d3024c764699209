"""Headings of the service: each by its situation, in the order of severity."""

from pathlib import Path
from typing import Any

import pytest

from kaboost.service.http.follower import LearnerStatus
from kaboost.service.http.headings import HEADINGS, states
from kaboost.service.http.loss_rise import LossRise
from kaboost.service.http.situation import Situation
from kaboost.service.storage.snapshots import Condition

PAGE = Path(__file__).parents[2] / "docs/how-to/read-the-page.md"
RUNS = LearnerStatus("running", age=0.5, pid=7, heartbeat_pid=7)
WELL = Situation(RUNS, "running", version=4, events_learned=500, events_per_second=9.0)
RISE = LossRise(5_000, is_alarm=True, before=0.16, peak=0.41, now=0.4)
REJECTED = {"share": 0.3, "text": "30 %: 300 of the last 1,000 records were rejected"}
SILENCE = {"state": "stopped", "text": "no label since 10:32, while 400 events have come"}


def with_learner(**status: Any) -> dict[str, Any]:
    return {"learner": RUNS._replace(**status)}


def with_condition(**condition: Any) -> dict[str, Any]:
    return with_learner(condition=Condition(**condition))


# Of each heading, what makes it from a service that is well, and a part of its reason.
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing can be learned": ({"learns_nothing": True, "reason": "odd labels"}, "odd labels"),
    "learner stopped": (
        with_learner(state="stopped", reason="ended with exit code 3") | {"state": "stopped"},
        "ended with exit code 3; predictions are answered from snapshot 4 as before",
    ),
    "learner restarting": (
        with_learner(pid=8, reason="restarted after: killed by SIGKILL: restarts in 0.2 s"),
        "killed by SIGKILL: restarts in 0.2 s; predictions are answered from snapshot 4",
    ),
    "learner gives no sign of life": (
        with_learner(age=6.2),
        "no sign of life for 6 s; predictions",
    ),
    "records are rejected": (
        {"symptoms": {"rejected": REJECTED | {"level": "bad"}}, "dead_letters": "payments.dlq"},
        "rejected; they are kept in the topic payments.dlq",
    ),
    "stalled": (with_condition(stalled="no answer for 7 s") | {"state": "stalled"}, "for 7 s"),
    "labels have stopped": ({"symptoms": {"labels": SILENCE}}, "no label since 10:32"),
    "falling back": (with_condition(fallback="loss doubled") | {"fallback": True}, "doubled"),
    "stale": ({"stale": True, "reason": "snapshots cannot be read"}, "cannot be read"),
    "paused": (with_condition(paused="paused by anna") | {"stale": True}, "by anna"),
    "learner starting": (with_learner(pid=8, reason="started", age=900.0), "is loading"),
    "compiling": (with_condition(compiling="step 2 of 9"), "step 2 of 9"),
    "no model yet": ({"version": None}, ""),
    "a feature is broken": (
        {"symptoms": {"features": [{"name": "x", "text": "x is missing"}]}},
        "x is missing",
    ),
    "some records are rejected": (
        {"symptoms": {"rejected": REJECTED | {"level": "warning"}}},
        "30 %: 300 of the last 1,000",
    ),
    "the relation has changed": (
        {"rise": RISE},
        "drift alarm at event 5,000; loss 0.16 -> 0.41; still high",
    ),
    "labels are late": ({"symptoms": {"labels": SILENCE | {"state": "late"}}}, "no label"),
    "no label yet": ({"symptoms": {"labels": SILENCE | {"state": "none yet"}}}, "no label"),
    "cold": ({"events_learned": 0}, "no event was learned yet"),
    "waiting for labels": (
        {"symptoms": {"labels": SILENCE | {"state": "awaited"}}, "events_per_second": 0.0},
        "no label since 10:32",
    ),
    "waiting for events": ({"events_per_second": 0.0}, ""),
    "learning": (
        {"rise": RISE._replace(now=0.17, age=60.0, ended=7_000.0)},
        "recovered from a change of the relation: drift alarm at event 5,000; loss 0.16 -> 0.41",
    ),
}


def test_all_headings_are_tested_and_documented() -> None:
    """In the order of the table, which is that of severity."""
    levels = ["bad", "warning", "good"]
    documented = [line.split("|")[1:3] for line in PAGE.read_text().splitlines() if "| " in line]
    rows = [(name.strip().strip("`"), level.strip()) for name, level in documented]

    assert [each.state for each in HEADINGS] == list(CASES)
    assert sorted(HEADINGS, key=lambda each: levels.index(each.level)) == list(HEADINGS)
    assert [(each.state, each.level) for each in HEADINGS] == [
        row for row in rows if row[1] in levels
    ]
    assert all(each.remedy for each in HEADINGS if each.level == "bad")


@pytest.mark.parametrize("state", CASES)
def test_each_heading(state: str) -> None:
    """With its reason, before those that only follow from it."""
    changed, reason = CASES[state]
    first = states(WELL._replace(**changed))[0]

    assert state == first.state
    assert reason in first.reason


def test_a_learner_that_hangs_while_it_loads_is_red() -> None:
    """Not a warning for ever; an old heartbeat of the one before is no alarm."""
    loading = RUNS._replace(pid=8, age=90_000.0, state_age=59.0)
    first, later = (
        states(WELL._replace(learner=each, stale=True))
        for each in (loading, loading._replace(state_age=61.0))
    )

    assert [("learner starting", "warning")] == [(each.state, each.level) for each in first]
    assert ["learner gives no sign of life"] == [each.state for each in later]
    assert "for 61 s" in later[0].reason


def test_a_learner_that_lives_has_not_begun_to_learn() -> None:
    """It gives heartbeats while it loads; the figures are those of the one before."""
    died = RUNS._replace(pid=8, heartbeat_pid=8, reason="restarted after: killed by SIGKILL")
    began = died._replace(reason="started")
    found = [
        states(WELL._replace(learner=each, figures_pid=pid))[0].state
        for each, pid in ((died, 7), (began, 7), (died, 8), (began, None))
    ]

    assert ["learner restarting", "learner starting", "learning", "learning"] == found


def test_a_late_heartbeat_is_no_lack_of_events() -> None:
    """After 3 s it is not alive, after 5 it gives no sign of life."""
    late = WELL._replace(learner=RUNS._replace(age=4.0), events_per_second=0.0)

    assert ["learning"] == [each.state for each in states(late)]


def test_nothing_is_good_where_something_is_wrong() -> None:
    """A learner that has stopped does not wait for events; of the good headings it is one."""
    stopped, _ = CASES["learner stopped"]
    found = states(WELL._replace(**stopped, events_per_second=0.0))

    assert ["learner stopped"] == [each.state for each in found]
    assert ["waiting for events"] == [
        each.state for each in states(WELL._replace(events_per_second=0.0))
    ]


def test_many_broken_features_are_named_in_part() -> None:
    """A join that fails breaks all of its features."""
    broken = [{"name": f"x{k}", "text": f"x{k} is missing"} for k in range(20)]
    found = states(WELL._replace(symptoms={"features": broken}))

    assert "x0 is missing; x1 is missing; x2 is missing; and 17 more" == found[0].reason


def test_rejected_records_are_not_quoted_where_words_without_values_are_known() -> None:
    """The page shows them whatever `api.show_records` is."""
    quoting = Condition(problem="10 of 10 records were rejected, such as: age: 'secret'")
    changed = {"symptoms": {"rejected": REJECTED | {"level": "bad"}}}
    found = states(WELL._replace(**changed, learner=RUNS._replace(condition=quoting)))

    assert "records are rejected" == found[0].state
    assert "secret" not in found[0].reason


def test_all_that_is_so_is_listed() -> None:
    """A cause comes before what follows from it; the worst is the heading."""
    broken = {"features": [{"name": "x", "text": "x is missing"}], "labels": SILENCE}
    found = states(WELL._replace(symptoms=broken, rise=RISE))

    assert ["labels have stopped", "a feature is broken", "the relation has changed"] == [
        each.state for each in found if each.level != "good"
    ]


def test_a_dead_learner_is_red_until_the_next_one_works() -> None:
    """From the supervisor's first report on, though the heartbeat of the dead one is recent; one
    that is started for the first time is no alarm.
    """
    reason = "killed by SIGKILL: restarts in 0.2 s"
    restarting = LearnerStatus("restarting", 0.3, -9, reason, pid=7, heartbeat_pid=7)
    again = LearnerStatus("running", 2.0, None, f"restarted after: {reason}", Condition(), 8, 7)
    beating = again._replace(age=0.2, heartbeat_pid=8)

    assert ["bad", "bad", "good"] == [
        states(WELL._replace(learner=each, state=each.state))[0].level
        for each in (restarting, again, beating)
    ]


def test_a_silent_learner_is_no_other_fault() -> None:
    """Its last report may be old: what it has reported is listed below the silence."""
    old = WELL._replace(**with_learner(age=40.0, condition=Condition(problem="odd")), stale=True)

    assert "learner gives no sign of life" == states(old)[0].state
    assert "stale" not in [each.state for each in states(old)]
