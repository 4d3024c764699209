"""Tune settings: candidates on the same events, the lowest progressive loss wins."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from kaboost.service.errors import ConfigError, KaboostError, NotWritten
from kaboost.service.lab.bootstrap import LEVEL, mean_difference
from kaboost.service.lab.file_source import FileSource
from kaboost.service.lab.planning import SAMPLE_RECORDS, ConfigOptions, plan
from kaboost.service.lab.records import FileRecords
from kaboost.service.lab.saving import nested
from kaboost.service.lab.space import Candidate, Space, describe, draw, flags_of, key_of, rungs
from kaboost.service.lab.writing import write_text

PROGRAM = "from kaboost.service.lab.trial import main; main()"
ETA = 3  # one in so many candidates stays
LEAST_RECORDS = 1000  # of the first rung
STUDY, TRIALS, BASE = "study.json", "trials.jsonl", "base.yaml"

Report = Callable[[int, int, float | None], None]  # trials done, trials in all, lowest loss


class TuneRequest(NamedTuple):
    """What is tuned, and how."""

    source: str
    options: ConfigOptions
    space: Space
    folder: Path
    candidates: int = 16
    strategy: str = "random"  # or halving
    jobs: int | None = None  # processes at once; all cores
    seed: int = 1
    limit: int | None = None
    delimiter: str | None = None


class Trial(NamedTuple):
    """A candidate on the first `limit` records, and what came of it."""

    candidate: Candidate
    limit: int | None
    outcome: dict[str, Any]

    @property
    def loss(self) -> float:
        """The progressive loss; infinite where the candidate failed."""
        loss = self.outcome.get("loss")
        return float("inf") if loss is None else float(loss)


def tune(request: TuneRequest, report: Report) -> dict[str, Any]:
    """Run the candidates that are not done yet; return the figures of the study.

    1. Look at the input, and write the base configuration into the folder.
    2. Run the default: it is the first candidate.
    3. Run the others, all of them on all records, or by successive halving.
    4. Compare the best with the default, event by event, and write its configuration.

    Raises
    ------
    ConfigError
        If the input or the space does not fit, or the folder holds another study.
    """
    text = _base_text(request)
    study = _Study(request, text, report)
    default = study.run_all([{}], request.limit)[0]
    if "fault" in default.outcome:
        raise ConfigError(f"the base configuration fails: {default.outcome['fault']}")
    candidates = draw(request.space, request.candidates, request.seed)
    if request.strategy == "halving":
        final = _halve(study, candidates, default.outcome["records"])
    else:
        study.expect(1 + len(candidates))
        final = study.run_all(candidates, request.limit)
    best = min([default, *final], key=lambda trial: trial.loss)
    return _figures(study, default, best, final)


def _halve(study: "_Study", candidates: list[Candidate], records: int) -> list[Trial]:
    """Run rungs of ever fewer candidates on ever more records."""
    plan_ = rungs(len(candidates), records, ETA, LEAST_RECORDS)
    study.expect(1 + sum(count for count, _ in plan_))
    trials: list[Trial] = []
    for k, (count, limit) in enumerate(plan_):
        last = k == len(plan_) - 1
        trials = study.run_all(candidates[:count], study.request.limit if last else limit)
        trials.sort(key=lambda trial: trial.loss)
        candidates = [trial.candidate for trial in trials]
    return trials


class _Study:
    """The trials of a folder: those that are done are read, the others are run."""

    def __init__(self, request: TuneRequest, text: str, report: Report) -> None:
        self.request, self._report = request, report
        self.folder = request.folder
        self._done: dict[str, Trial] = {}
        self._expected = 1
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._begin(text)

    def expect(self, trials: int) -> None:
        """Note how many trials there will be."""
        self._expected = trials

    def run_all(self, candidates: Sequence[Candidate], limit: int | None) -> list[Trial]:
        """Return the trials of candidates, in their order; run those that are not done."""
        missing = [c for c in candidates if _key(c, limit) not in self._done]
        jobs = self.request.jobs or os.cpu_count() or 1
        with ThreadPoolExecutor(jobs) as pool:
            waiting = {pool.submit(self._run, candidate, limit) for candidate in missing}
            try:
                while waiting:
                    waiting = self._take(waiting)
            finally:  # after an interruption some are left
                for future in waiting:
                    future.cancel()
                self._kill()
        self._show()
        return [self._done[_key(candidate, limit)] for candidate in candidates]

    def losses_path(self, candidate: Candidate) -> Path:
        """Return where the losses of all events are kept."""
        return self.folder / f"losses-{_digest(key_of(candidate))}.npy"

    @property
    def trials(self) -> list[Trial]:
        """All trials that are done."""
        return list(self._done.values())

    def _take(self, waiting: set[Future[Trial]]) -> set[Future[Trial]]:
        """Note the trials that have ended; return the others."""
        ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in ended:
            self._note(future.result())
        return waiting

    def _run(self, candidate: Candidate, limit: int | None) -> Trial:
        request = self.request
        whole = limit == request.limit
        job = {
            "source": str(Path(request.source).resolve()),
            "config": str(self.folder / BASE),
            "flags": flags_of(candidate),
            "limit": limit,
            "delimiter": request.delimiter,
            "losses": str(self.losses_path(candidate)) if whole else None,
        }
        # One thread each: the cores are used by other trials, and results do not depend on it.
        environment = {**os.environ, "NUMBA_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=environment, start_new_session=True,
        )  # fmt: skip
        with self._lock:
            self._running.add(process)
        out, err = process.communicate(json.dumps(job))
        with self._lock:
            self._running.discard(process)
        if process.returncode:
            last = err.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
            return Trial(candidate, limit, {"fault": f"the process ended: {last[0]}"})
        return Trial(candidate, limit, json.loads(out.strip().splitlines()[-1]))

    def _kill(self) -> None:
        with self._lock:
            for process in self._running:
                process.kill()

    def _note(self, trial: Trial) -> None:
        """Keep a trial: a killed study goes on after it."""
        if str(trial.outcome.get("fault", "")).startswith("the process ended"):
            raise KaboostError(
                f"a trial ended before its result: {trial.outcome['fault']}; the others are kept, "
                "run the same command to go on"
            )
        self._done[_key(trial.candidate, trial.limit)] = trial
        try:
            with (self.folder / TRIALS).open("a") as file:
                file.write(json.dumps(trial._asdict()) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as err:
            raise NotWritten(
                f"{self.folder / TRIALS}: cannot be written: {err.strerror}; make room there, and "
                "run the same command again"
            ) from err
        self._show()

    def _show(self) -> None:
        lowest = min((trial.loss for trial in self.trials), default=None)
        self._report(len(self._done), max(self._expected, len(self._done)), lowest)

    def _begin(self, text: str) -> None:
        """Begin a study in a new folder, or go on with the same one."""
        request = self.request
        size = Path(request.source).stat()
        identity = {
            "source": str(Path(request.source).resolve()),
            "bytes": size.st_size,
            "modified": size.st_mtime_ns,
            "base": text,
            "space": json.loads(json.dumps(request.space)),
            "strategy": request.strategy,
            "candidates": request.candidates,
            "seed": request.seed,
            "limit": request.limit,
        }
        path = self.folder / STUDY
        if path.is_file():
            before = json.loads(path.read_text())
            if before != identity:
                other = next(key for key in identity if before.get(key) != identity[key])
                raise ConfigError(
                    f"--folder {self.folder}: has a study with another {other}; name a new folder, "
                    "or remove it"
                )
            self._read_trials()
            return
        if self.folder.is_dir() and any(self.folder.iterdir()):
            raise ConfigError(f"--folder {self.folder}: has other files; name a new folder")
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.folder / BASE, text)
        write_text(path, json.dumps(identity, indent=2) + "\n")

    def _read_trials(self) -> None:
        path = self.folder / TRIALS
        for line in path.read_text().splitlines() if path.is_file() else ():
            try:
                trial = Trial(**json.loads(line))
            except (ValueError, TypeError):
                continue  # the last line of a study that was killed
            self._done[_key(trial.candidate, trial.limit)] = trial


def _base_text(request: TuneRequest) -> str:
    """Return the configuration that candidates change: that of a file, or an inferred one."""
    source = FileRecords(FileSource(request.source, request.delimiter), "kaboost.events.v1")
    try:
        sample = source.sample(SAMPLE_RECORDS)
        planned = plan(request.options, source.name, sample, is_topic=False)
    finally:
        source.close()
    text = planned.text
    if text is None:
        assert request.options.config is not None
        text = request.options.config.read_text(encoding="utf-8")
    given = request.options.given
    named = {"events.label": given.label, "task.kind": given.task, "events.id": given.id,
             "events.timestamp": given.timestamp}  # fmt: skip
    extra = {} if planned.text else {k: v for k, v in named.items() if v is not None}
    overrides = planned.overrides if planned.text else {**request.options.overrides, **extra}
    return yaml.safe_dump(nested(text, overrides), sort_keys=False, allow_unicode=True)


def _figures(study: _Study, default: Trial, best: Trial, final: Sequence[Trial]) -> dict[str, Any]:
    """Return the figures of a study, with what the best one brings over the default."""
    space = study.request.space
    gain = None
    if best is not default:
        paths = [study.losses_path(trial.candidate) for trial in (best, default)]
        ours, theirs = map(np.load, paths)
        gain = mean_difference(ours - theirs).figures if len(ours) == len(theirs) else None
    rows = [
        {"candidate": describe(t.candidate, space), "records": t.limit, **t.outcome}
        for t in sorted([default, *final], key=lambda trial: trial.loss)
    ]
    return {
        "input": study.request.source,
        "strategy": study.request.strategy,
        "trials": len(study.trials),
        "failed": [
            {"candidate": describe(t.candidate, space), "fault": t.outcome["fault"]}
            for t in study.trials
            if "fault" in t.outcome
        ],
        "default": default.outcome,
        "best": {**best.outcome, "settings": best.candidate},
        "gain": gain,
        "level": LEVEL,
        "rows": rows,
    }


def winning_text(folder: Path, settings: Candidate) -> str:
    """Return the configuration of the best candidate."""
    tree = nested((folder / BASE).read_text(), flags_of(settings))
    head = "# Written by `kaboost tune`; docs/settings.md has all settings.\n"
    return head + yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def _key(candidate: Candidate, limit: int | None) -> str:
    return f"{limit} {key_of(candidate)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
