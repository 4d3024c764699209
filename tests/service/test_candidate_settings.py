"""What the settings say of candidates: what is refused, and what a restart does with changes."""

from pathlib import Path
from typing import Any

import pytest

from kaboost.service.config.models import describe_models
from kaboost.service.config.settings import load
from kaboost.service.errors import ConfigError, Incompatible
from tests.service.candidates import CANDIDATES, QUICK, Service, learn
from tests.service.learning import events, rows, settings_for
from tests.specs import LINEAR

EVENTS = events(rows(200))
RIVER = {"river": "linear_model.LogisticRegression", "one_hot": True}
TREES = {"bank": {"kind": "reboosted_trees", "max_memory": 32}}


def learned(folder: Path, **sections: Any) -> Service:
    """Learn 200 events with candidates, and write a checkpoint."""
    service = Service(folder, **{"candidates": CANDIDATES, "promotion": QUICK, **sections})
    trainer = service.start()
    learn(trainer, EVENTS)
    trainer.write_checkpoint()
    return service


def counts(service: Service, **sections: Any) -> tuple[dict[str, int], str]:
    """Start with changed sections; return the events of all models, and what changes."""
    trainer = service.start(**sections)
    found = {each["name"]: each["events_learned"] for each in trainer.candidates.report()}
    whole = {trainer.candidates.champion: trainer.events_learned, **found}
    return whole, "; ".join(trainer.changes)


def test_a_changed_candidate_begins_again(tmp_path: Path) -> None:
    """The others go on; a new one begins, a removed one is no longer there."""
    service = learned(tmp_path)
    changed = {"wide": {"bank": {"n": 41}}, "deep": {"bank": {"n": 8}}}
    found, words = counts(service, candidates=changed)

    assert {"model": 200, "wide": 0, "deep": 0} == found
    assert "candidates.adagrad is removed" in words
    assert "candidates.wide begins again: " in words
    assert "model.bank.n is 40 there, 41 configured" in words
    assert "candidates.deep is new, and cold" in words


def test_other_rules_of_comparison_begin_a_round(tmp_path: Path) -> None:
    """Another `after` counts other blocks; the models go on."""
    service = learned(tmp_path)
    trainer = service.start(promotion={**QUICK, "after": 150})
    assert {"model": 200, "wide": 200, "adagrad": 200} == counts(service)[0]
    learn(trainer, EVENTS)

    assert 190 < trainer.candidates.report()[0]["compared_events"] <= 200


def test_budget_effort_and_memory_are_taken_over(tmp_path: Path) -> None:
    """As by the champion, whose change is theirs too."""
    effort = {"bank": {"effort": 0.5}}
    service = learned(tmp_path, model=TREES, candidates={"small": effort})
    more = {"bank": {**TREES["bank"], "max_memory": 64}}
    found, words = counts(service, model=more, candidates={"small": {"bank": {"effort": 2.0}}})

    assert {"model": 200, "small": 200} == found
    assert "model.bank.max_memory from 32.0 to 64" in words
    assert "candidates.small: model.bank.effort from 0.5 to 2.0" in words


def promoted(folder: Path) -> Service:
    """Promote a candidate."""
    service = learned(folder)
    after = service.promote("wide", service.start())
    after.write_checkpoint()
    return service


def test_a_champion_keeps_its_name(tmp_path: Path) -> None:
    """It is compared with the settings of its name; a change is refused, as of any champion."""
    service = promoted(tmp_path)
    found, words = counts(service)
    assert ({"wide": 200, "model": 200, "adagrad": 200}, "") == (found, words)

    with pytest.raises(Incompatible, match=r"model\.bank\.n is 40 there, 41 configured"):
        service.start(candidates={**CANDIDATES, "wide": {"bank": {"n": 41}}})


def test_the_settings_of_a_champion_move_to_the_model(tmp_path: Path) -> None:
    """Then it is the model of the section model, and needs no candidate any more."""
    service = promoted(tmp_path)
    with pytest.raises(Incompatible, match=r"model\.bank\.n is 40 there, 20 configured"):
        service.start(candidates={})
    bank: dict[str, Any] = {**LINEAR["bank"], "n": 40}
    found, words = counts(service, model={**LINEAR, "bank": bank}, candidates={})

    assert {"model": 200} == found
    assert "candidates.model is removed" in words


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_parameters_go_over_the_default_model(tmp_path: Path, task: str) -> None:
    """Also of a part that the section model does not name."""
    labels = {"labels": ["a", "b", "c"]} if task == "multiclass" else {}
    candidates = {"thorough": {"bank": {"effort": 2.0}}}
    sections: dict[str, Any] = {"task": {"kind": task, **labels}, "model": {}}
    settings = settings_for("127.0.0.1:9", tmp_path, "t", candidates=candidates, **sections)
    model, thorough = describe_models(settings).values()

    assert {**model["spec"]["bank"], "effort": 2.0} == thorough["spec"]["bank"]
    del model["spec"]["bank"], thorough["spec"]["bank"]
    assert model == thorough


@pytest.mark.parametrize(
    ("candidates", "words"),
    [
        ({"Wide": {}}, "'Wide' is no name of a candidate: write a-z"),
        ({"model": {}}, "'model' is the name of the section model"),
        ({f"c{k}": {} for k in range(9)}, "has 9 candidates.*at most 8"),
        ({"wide": {"bank": {"n": 0}}}, r"wide: bank\.n"),
        ({"wide": {"bank": "tree"}}, "wide: bank: 'tree' is not known"),
        ({"wide": {"loss": "hinge"}}, "wide: loss.kind: hinge cannot be compared with logistic"),
        ({"wide": {"river": "x"}}, "wide: "),
        ({"wide": 3}, "candidates.wide = 3"),
    ],
)
def test_what_cannot_be_a_candidate_is_refused(tmp_path: Path, candidates: Any, words: str) -> None:
    """At the start, with the name of the candidate."""
    with pytest.raises(ConfigError, match=words):
        settings_for("127.0.0.1:9", tmp_path, "t", candidates=candidates)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"labels": {"topic": "l", "id": "id", "label": "y"}, "events": {"id": "id"}},
         "candidates need labels in the events"),
        ({"model": RIVER}, "a River model has no candidates"),
        ({"promotion": {"after": 99}}, "promotion.after = 99"),
        ({"promotion": {"confidence": 1.0}}, "promotion.confidence = 1"),
    ],
)  # fmt: skip
def test_where_no_candidate_can_learn_it_is_refused(
    tmp_path: Path, sections: dict[str, Any], words: str
) -> None:
    """With the remedy, rather than that one does not learn."""
    with pytest.raises(ConfigError, match=words):
        settings_for("127.0.0.1:9", tmp_path, "t", candidates={"other": {}}, **sections)


def test_values_come_from_the_environment_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parsed as those of the model are."""
    settings_for("127.0.0.1:9", tmp_path, "t", candidates={"wide": {"bank": "stumps"}})
    monkeypatch.setenv("KABOOST_CANDIDATES__WIDE__BANK__N", "7")
    loaded = load(tmp_path / "kaboost.json", {"candidates.other.seed": "3"})

    expected = {"wide": {"bank": {"kind": "stumps", "n": 7}}, "other": {"seed": 3}}
    assert expected == loaded.candidates
