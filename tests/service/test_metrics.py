"""Metrics: the names of the interface, in a form that several processes and restarts can bear."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from kaboost import Model
from kaboost.models.evaluation.baselines import ProgressiveValidation, progressive_validation
from kaboost.models.evaluation.intervals import LEVELS
from kaboost.models.evaluation.reliability import record_many
from kaboost.service.config.settings import Settings
from kaboost.service.metrics import Validation, api_metrics, learner_metrics
from kaboost.service.score.metrics import score_metrics
from tests.kafka.client import encode
from tests.service.learning import gauge, learned, learning, until
from tests.specs import LINEAR

Make = Callable[..., Settings]
Send = Callable[..., None]

LEARNER = """
kaboost_build_info{version}
kaboost_model_info{model,rule,bank,loss}
kaboost_leader
kaboost_leader_epoch
kaboost_events_consumed_total
kaboost_events_learned_total
kaboost_events_rejected_total{reason}
kaboost_rejected_ratio
kaboost_dlq_records_total{reason}
kaboost_consumer_lag_records{topic,partition}
kaboost_consumer_lag_seconds{topic,partition}
kaboost_learner_stalled_seconds
kaboost_serving_fallback
kaboost_drift_total{kind}
kaboost_feature_missing_ratio{feature}
kaboost_feature_shift{feature}
kaboost_feature_unseen_ratio{feature}
kaboost_slice_loss{feature,value}
kaboost_rollbacks_total
kaboost_promotions_total
kaboost_candidate_loss_window{candidate}
kaboost_candidate_improvement_ratio{candidate}
kaboost_candidate_failures_total{candidate}
kaboost_influence_limited_total
kaboost_gaps_accepted_total{kind}
kaboost_records_lost_total
kaboost_learn_batch_events
kaboost_learn_duration_seconds
kaboost_snapshot_publish_duration_seconds
kaboost_checkpoint_duration_seconds
kaboost_snapshot_version
kaboost_snapshot_timestamp_seconds
kaboost_event_to_snapshot_seconds
kaboost_checkpoint_last_success_timestamp_seconds
kaboost_checkpoint_size_bytes
kaboost_checkpoint_failures_total{reason}
kaboost_snapshot_failures_total{reason}
kaboost_snapshots_sent_total{target,result}
kaboost_snapshot_sent_version{target}
kaboost_restore_fallbacks_total
kaboost_model_memory_bytes
kaboost_feature_names_on_trial
kaboost_features_evicted_total
kaboost_learner_restarts_total
kaboost_learning_paused
kaboost_features_ignored_total
kaboost_duplicates_total
kaboost_records_skipped_total{reason}
kaboost_waiting_features
kaboost_waiting_bytes
kaboost_labels_early
kaboost_labels_held
kaboost_label_delay_seconds
kaboost_labels_joined_total
kaboost_labels_expired_total
kaboost_labels_unmatched_total
kaboost_labels_corrected_total
kaboost_metadata_repaired_total{field,action}
kaboost_weights_ignored_total
"""
VALIDATION = """
kaboost_progressive_loss{predictor}
kaboost_progressive_loss_window{predictor}
kaboost_progressive_error_window{predictor}
kaboost_prefix_loss{prefix}
kaboost_weak_learner_edge{learner}
kaboost_reliability_predicted{bin}
kaboost_reliability_observed{bin}
kaboost_calibration_error
kaboost_interval_coverage{level}
"""
SCORE = """
kaboost_build_info{version}
kaboost_score_consumed_total
kaboost_score_answered_total
kaboost_score_aborted_total
kaboost_score_waiting
kaboost_score_partitions
kaboost_score_snapshot_version
kaboost_score_batch_duration_seconds
kaboost_dlq_records_total{reason}
kaboost_records_skipped_total{reason}
kaboost_features_ignored_total
kaboost_consumer_lag_records{topic,partition}
kaboost_consumer_lag_seconds{topic,partition}
kaboost_records_lost_total
"""
API = """
kaboost_predictions_logged_total{result}
kaboost_records_accepted_total{topic}
kaboost_predict_duration_seconds
kaboost_predictions_total
kaboost_predict_errors_total{status}
kaboost_predict_features_ignored_total
kaboost_requests_refused_total{reason}
http_server_request_duration_seconds{http_request_method,http_route,http_response_status_code}
"""


def names(metrics: object) -> set[str]:
    """Spell every metric of a NamedTuple as the interface does."""
    found = set()
    for metric in metrics:  # type: ignore[attr-defined]
        if not isinstance(metric, Validation):
            total = "_total" if metric._type == "counter" else ""
            labels = "{" + ",".join(metric._labelnames) + "}" if metric._labelnames else ""
            found.add(metric._name + total + labels)
    return found


def taught(n: int = 20, events: int = 100) -> tuple[Model, ProgressiveValidation]:
    """Teach a model of n weak learners and its baselines."""
    model = Model("regression", {"bank": {"kind": "linear", "n": n}}, {"x": "number"})
    draw = np.random.default_rng(1)
    model.learn_many([{"x": float(x)} for x in draw.normal(size=events)], draw.normal(size=events))
    seen = progressive_validation(model.labels)
    seen.loss_sum[:] = 1.5, 2.5, 3.5
    seen.weight_sum[...] = 7.25
    record_many(seen.reliability, np.full(4, 0.9), np.array([1.0, 1.0, 0.0, 1.0]), np.ones(4))
    return model, seen


def exposed(validation: Validation) -> list[str]:
    registry = CollectorRegistry()
    registry.register(validation)
    return generate_latest(registry).decode().splitlines()


def test_the_names_are_those_of_the_interface() -> None:
    """Dashboards depend on them: name, unit, labels."""
    assert set(LEARNER.split()) == names(learner_metrics(CollectorRegistry()))
    assert set(API.split()) == names(api_metrics(CollectorRegistry()))
    assert set(SCORE.split()) == names(score_metrics(CollectorRegistry()))

    validation = Validation()
    model, seen = taught()
    seen.loss_recent[:], seen.error_recent[:], seen.recent_weight[...] = 1.0, 1.0, 2.0
    validation.record(seen, model.booster.progress, model.intervals)
    assert set(VALIDATION.split()) == {
        "".join([family.name, *(f"{{{label}}}" for label in family.samples[0].labels)])
        for family in validation.collect()
    }


def test_reliability_is_a_pair_of_figures_a_bin() -> None:
    """Of events given .9, all in bin 14, three of four were positive."""
    validation = Validation()
    model, seen = taught()
    validation.record(seen, model.booster.progress)
    lines = exposed(validation)
    figures = {line.split()[0]: float(line.split()[1]) for line in lines if line[0] != "#"}

    assert figures['kaboost_reliability_predicted{bin="14"}'] == pytest.approx(0.9)
    assert figures['kaboost_reliability_observed{bin="14"}'] == pytest.approx(0.75, abs=1e-3)
    assert figures["kaboost_calibration_error"] == pytest.approx(0.15, abs=1e-3)
    assert 1 == sum(name.startswith("kaboost_reliability_predicted") for name in figures)


def test_coverage_is_a_figure_a_level() -> None:
    """Eighty events had intervals: what they held, at all eight levels; nothing of classes."""
    validation = Validation()
    model, seen = taught()
    assert model.intervals is not None
    validation.record(seen, model.booster.progress, model.intervals)
    found = [line for line in exposed(validation) if line.startswith("kaboost_interval_coverage{")]
    validation.record(seen, model.booster.progress)

    assert [f'kaboost_interval_coverage{{level="{level}"}}' for level in LEVELS] == [
        line.split()[0] for line in found
    ]
    assert model.intervals.coverage.tolist() == [float(line.split()[1]) for line in found]
    assert [] == [line for line in exposed(validation) if line.startswith("kaboost_interval_cov")]


def test_the_progressive_loss_goes_on_from_the_state() -> None:
    """A Summary without quantiles: rate(sum)/rate(count) is the loss of any window."""
    validation = Validation()
    model, seen = taught()
    validation.record(seen, model.booster.progress)

    lines = exposed(validation)

    assert "# TYPE kaboost_progressive_loss summary" in lines
    for predictor, total in (("model", 1.5), ("prior", 2.5), ("last_label", 3.5)):
        assert f'kaboost_progressive_loss_sum{{predictor="{predictor}"}} {total}' in lines
        assert f'kaboost_progressive_loss_count{{predictor="{predictor}"}} 7.25' in lines


@pytest.mark.parametrize("n", [1, 5, 32, 500])
def test_prefixes_and_edges_are_bounded(n: int) -> None:
    """At most 32 of each, spread evenly; prefix i is the loss after weak learner i."""
    validation = Validation()
    model, seen = taught(n)
    validation.record(seen, model.booster.progress)
    families = {family.name: family for family in validation.collect()}

    prefixes = [int(s.labels["prefix"]) for s in families["kaboost_prefix_loss"].samples]
    learners = [int(s.labels["learner"]) for s in families["kaboost_weak_learner_edge"].samples]
    losses = model.booster.progress.prefix_losses

    assert min(n + 1, 32) == len(prefixes)
    assert min(n, 32) == len(learners)
    assert (0, n) == (prefixes[0], prefixes[-1])
    assert (1, n) == (learners[0], learners[-1])
    assert [losses[i] for i in prefixes] == [
        s.value for s in families["kaboost_prefix_loss"].samples
    ]


def test_before_the_first_event_nothing_is_not_a_number() -> None:
    """What no event has told is left out: NaN in a dashboard reads as a fault."""
    validation = Validation()
    model = Model("binary", LINEAR, {"x": "number"})
    validation.record(progressive_validation(model.labels), model.booster.progress)

    assert [] == [line for line in exposed(validation) if "NaN" in line]


def test_latency_buckets_reach_ten_seconds() -> None:
    """Every bucket up to 10 s is at most 2.5 times as large as the one below it."""
    registry = CollectorRegistry()
    metrics = api_metrics(registry)
    metrics.request_duration.labels("GET", "/model", "200").observe(0.4)
    text = generate_latest(registry).decode()

    for name in ("kaboost_predict_duration_seconds", "http_server_request_duration_seconds"):
        bounds = [float(b) for b in re.findall(rf'^{name}_bucket\{{.*le="([0-9.e-]+)"', text, re.M)]
        assert 10.0 == max(bounds)
        assert all(b <= 2.5 * a * (1 + 1e-9) for a, b in pairwise(bounds))


def test_two_registries_do_not_meet() -> None:
    """No globals: two learners of one test count apart."""
    one, two = (learner_metrics(CollectorRegistry()) for _ in range(2))
    one.consumed.inc(3)

    assert 0.0 == two.consumed._value.get()


def test_the_workers_of_one_port_are_added_up(tmp_path: Path) -> None:
    """Several processes write their values to files that one of them collects."""
    code = (
        "from prometheus_client import CollectorRegistry, generate_latest\n"
        "from prometheus_client.multiprocess import MultiProcessCollector\n"
        "from kaboost.service.metrics import api_metrics\n"
        "metrics = api_metrics(CollectorRegistry())\n"
        "metrics.predictions.inc(2)\n"
        "metrics.predict_errors.labels('422').inc()\n"
        "metrics.predict_duration.observe(0.001)\n"
        "metrics.request_duration.labels('POST', '/predict', '200').observe(0.001)\n"
        "everyone = CollectorRegistry()\n"
        "MultiProcessCollector(everyone)\n"
        "print(generate_latest(everyone).decode())\n"
    )
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    run = [sys.executable, "-c", code]
    texts = [
        subprocess.run(run, cwd=root, env=environment, text=True, check=True, capture_output=True)
        for _ in range(2)
    ]
    lines = texts[1].stdout.splitlines()

    assert "kaboost_predictions_total 4.0" in lines
    assert 'kaboost_predict_errors_total{status="422"} 2.0' in lines
    assert "kaboost_predict_duration_seconds_count 2.0" in lines


def test_ignored_features_are_counted(topic: str, make_settings: Make, send: Send) -> None:
    """With `features.unknown: ignore` every feature that is passed over reaches the metric."""
    settings = make_settings(topic, features={"unknown": "ignore"})
    with learning(settings) as running:
        send(topic, [encode({"x": 1.0, "extra": 2, "more": 3}, 1)] * 4)
        until(lambda: learned(settings) == 4)
        assert gauge(settings, "kaboost_features_ignored_total") == 8
        assert 0 == running.stop()
