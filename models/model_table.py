"""A model as a table of HTML, for notebooks."""

from __future__ import annotations

from html import escape

from kaboost.models.table_model import TableModel

SHOWN = 8  # features


def model_table(model: TableModel) -> str:
    """Return task, parts, events, progressive loss and the most important features as HTML."""
    progress = model.booster.progress
    events = int(progress.events)
    rows = {
        "task": model.task,
        "rule, bank, loss": ", ".join(
            model.spec[part]["kind"] for part in ("rule", "bank", "loss")
        ),
        "events learned": f"{events:,}",
        "progressive loss": f"{progress.mean_loss:.4f}" if events else "–",
        "features": f"{len(model.kinds):,}",
        "classes": ", ".join(map(str, model.classes_)) or "–",
    }
    if model.explicable and events:
        shares = [share for share in model.importance() if share.share > 0.0]
        most = ", ".join(f"{share.name} {100 * share.share:.0f} %" for share in shares[:SHOWN])
        rows["importance"] = most or "–"
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(text)}</td></tr>"
        for name, text in rows.items()
    )
    return f"<table><caption>kaboost.Model</caption>{cells}</table>"
