"""The page of algorithms: every rule, bank and loss with its parameters, defaults and paper.

The command line and docs/algorithms.md are generated from it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kaboost.models.parts import PARTS
from kaboost.models.types import Component, Param

INTRODUCTION = """# Algorithms

What `model:` in `kaboost.yaml`, and `kaboost.build` in Python, can be made of: a rule, a bank of
weak learners and a loss. Made by `kaboost models --docs` from the code; a test holds this page
against it. Every part names its paper; "specification" is the text that the code was built from,
which restores and corrects what papers leave out. The published boosters have pages with pictures:
[SGB](algorithms/sgb.md), [OGB](algorithms/ogb.md), [latent spaces](algorithms/latent.md),
[GentleBoost](algorithms/gentle.md), [BBM](algorithms/bbm.md),
[AdaBoost.OL](algorithms/adaboost-ol.md), [Oza](algorithms/oza.md), and
[the default](algorithms/default.md).

```yaml
model:
  rule: sgb # a bare word means that kind with its defaults
  bank: {kind: reboosted_trees, max_memory: 128}
  loss: logistic
  seed: 1
```

This is the default for two classes; for numbers the loss is squared, and for several classes
`multiclass: one_vs_rest` is added, which makes one binary model per class. With
`multiclass: shared_trees` classes share their trees, which have a value per class at every leaf:
less time, and better where classes are many (bench/README.md). With another rule,
parameters of sgb, `l2` or a loss that reboosted trees do not lower, the default bank is
`{kind: linear, n: 20, step: nag}`.

`seed` is where every random draw starts. A pair that the theory forbids is refused with the reason
and what to take instead. An empty default depends on the other parts, or is none. Rules that vote
(bbm, adaboost_ol, the Oza rules, adwin_bag) give shares of votes as probabilities: an order, not
calibrated odds.
"""
HEADINGS = {
    "rule": "Rules: how weak learners are taught and combined",
    "bank": "Banks: N weak learners of one kind",
    "loss": "Losses: what a score costs",
}


def entries() -> Iterator[tuple[str, Component]]:
    """Yield every part with its key: rule, bank or loss."""
    for word, parts in PARTS.items():
        for part in parts.values():
            yield word, part


def values(param: Param) -> str:
    """Return the values that a parameter can have, in words."""
    if isinstance(param.default, bool):
        return "true, false"
    words = [*param.choices, *(["inf"] if param.infinite else [])]
    if param.low is None or param.high is None:
        return ", ".join(words)
    kind = "whole number" if param.integer else "number"
    return ", ".join([*words, f"{kind} from {param.low:g} to {param.high:g}"])


def default(param: Param) -> str:
    """Return the default as YAML; empty where it depends on other parts or is none."""
    if param.default is None:
        return ""
    return str(param.default).lower() if isinstance(param.default, bool) else str(param.default)


def page() -> str:
    """Return docs/algorithms.md."""
    blocks = [INTRODUCTION]
    word_before = ""
    for word, part in entries():
        if word != word_before:
            blocks.append(f"## {HEADINGS[word]}\n")
            word_before = word
        blocks.append(_section(word, part))
    return "\n".join(blocks)


def _section(word: str, part: Component) -> str:
    # A formula is not capitalised: q and Q differ.
    summary = f"{part.summary}." if word == "loss" else _sentence(part.summary)
    lines = [f"### `{part.kind}`", "", f"{summary} {_sentence(part.source)}"]
    if part.traits.task:
        lines.append(f"For {part.traits.task} tasks.")
    if word == "rule" and part.losses:
        lines.append(f"It takes only the loss {' or '.join(f'`{loss}`' for loss in part.losses)}.")
    if part.params:
        lines += ["", *_table(part.params)]
    return "\n".join([*lines, ""])


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _table(params: tuple[Param, ...]) -> Iterator[str]:
    yield "| parameter | default | values | meaning |"
    yield "|---|---|---|---|"
    for param in params:
        cells = (f"`{param.name}`", default(param), values(param), param.doc)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
