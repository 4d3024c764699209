"""Verdicts of the comparison: their figures, and what must not be promoted by an old one."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kaboost.models.evaluation.paired import EVENTS, is_better
from kaboost.service.config.settings import Settings
from kaboost.service.learner.replacement import Replacement
from kaboost.service.learner.steering import Steering
from tests.service.candidates import Service, learn
from tests.service.learning import events, gauge, learned, learning, rows, until
from tests.service.steering import audited, command
from tests.service.test_promotion import BETTER, RARELY, WEAK, newest

AFTER = 100
LOOK = 8 * 16 * 7  # events of a round: of eight times 16 blocks of 7 events, which are over 100
RULE: dict[str, Any] = {"after": AFTER, "margin": 0.05}
EVENTS_OF_A_ROUND = events(rows(AFTER + LOOK + 20))


def service(folder: Path) -> Service:
    """Return a learner with a better candidate."""
    return Service(folder, model=WEAK, candidates=BETTER, promotion=RULE)


@pytest.mark.parametrize("more", [0, 20])
def test_the_last_decision_of_a_round_keeps_its_figures(tmp_path: Path, more: int) -> None:
    """Also where the batch goes on into the next round, and after a restart."""
    one = service(tmp_path)
    trainer = one.start()
    learn(trainer, EVENTS_OF_A_ROUND[: AFTER + LOOK + more], step=10_000)
    (state,) = trainer.candidates.stored(trainer.state).candidates
    trainer.write_checkpoint()
    again = one.start()

    assert more == state.comparison.counts[EVENTS]
    for each in (trainer, again):
        assert "better" == each.candidates.winner
        assert "its loss is lower by" in each.candidates.describe("better")
        assert f"over {LOOK:,} events" in each.candidates.describe("better")


@pytest.mark.parametrize("changed", [{"margin": 0.1}, {"confidence": 0.99}, {"after": 200}, {}])
def test_a_verdict_of_another_rule_is_dropped(tmp_path: Path, changed: dict[str, Any]) -> None:
    """The comparison begins again; with the same rule it goes on."""
    one = service(tmp_path)
    trainer = one.start()
    learn(trainer, EVENTS_OF_A_ROUND[:300])
    assert "better" == trainer.candidates.winner
    trainer.write_checkpoint()
    again = one.start(promotion={**RULE, **changed, "automatic": True})

    (state,) = again.candidates.stored(again.state).candidates
    assert (not changed) == is_better(state.comparison)
    assert (not changed) == bool(state.comparison.counts[EVENTS])
    assert (None if changed else "better") == again.candidates.winner
    assert bool(changed) == (state.verdict is None)


def test_nothing_is_promoted_while_learning_is_paused(tmp_path: Path) -> None:
    """The winner waits until somebody resumes."""
    trainer = service(tmp_path).start()
    learn(trainer, EVENTS_OF_A_ROUND[:300])
    promoted: list[str] = []

    def replace(*_: object) -> tuple[int, str]:
        promoted.append("better")
        return 1, ""

    startup = SimpleNamespace(promote=replace)
    learner: Any = SimpleNamespace(trainer=trainer, startup=startup, replace=replace)
    replacement, steering = Replacement(learner), Steering(tmp_path, {})
    asked: Any = SimpleNamespace(by="ops", time="now", reason="look")
    steering._do_pause(asked)
    replacement.promote_winner(steering)
    assert [] == promoted
    steering._do_resume(asked)
    replacement.promote_winner(steering)

    assert ["better"] == promoted


def test_a_rollback_undoes_an_automatic_promotion(
    topic: str, make_settings: Callable[..., Settings], send: Callable[..., None]
) -> None:
    """The verdict in the kept checkpoint does not promote the candidate again."""
    promotion = {"automatic": True, **RULE}
    settings = make_settings(
        topic, checkpoints=RARELY, model=WEAK, candidates=BETTER, promotion=promotion
    )
    stream = EVENTS_OF_A_ROUND[:300]
    with learning(settings) as running:
        send(topic, stream)
        until(lambda: learned(settings) == 300 and newest(settings).header["champion"] == "better")
        (entry,) = until(lambda: [e for e in audited(settings) if e["command"] == "promote"])
        before = entry["details"]["before"]
        result = command(settings, "rollback", version=before, positions="stay")
        assert "done" == result.state, result.message
        assert "model" == newest(settings).header["champion"]
        command(settings, "checkpoint")  # the loop has gone round since
        assert 1.0 == gauge(settings, "kaboost_promotions_total")
        assert "model" == newest(settings).header["champion"]
        assert 0 == running.stop()


def test_a_promotion_without_its_checkpoint_is_not_served_on(tmp_path: Path) -> None:
    """The learner learns the champion of before, so that one is published, though it has learned
    fewer events than the model of the newest snapshot.
    """
    one = service(tmp_path)
    trainer = one.start()
    learn(trainer, EVENTS_OF_A_ROUND[:100])
    trainer.write_checkpoint()
    learn(trainer, EVENTS_OF_A_ROUND[100:200])
    trainer.publish()
    assert not one.start().unpublished
    one.promote("better", trainer).publish()
    again = one.start()

    assert ("model", 100) == (again.candidates.champion, again.events_learned)
    assert again.unpublished
