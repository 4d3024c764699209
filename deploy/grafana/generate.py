"""Generate the dashboards for Grafana: `python -m deploy.grafana.generate`."""

import json
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import (
    AnnotationQuery,
    Dashboard,
    DashboardLink,
    QueryVariable,
    Row,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    VariableRefresh,
    VariableSort,
)

from deploy.grafana import data, learning, overview
from deploy.grafana.panels import SOURCE, Rows
from deploy.grafana.queries import RATE, of_instance

# What marks the charts: name, color, expression that is above 0 where it happened.
MARKS = (
    ("Drifts", "red", f"increase({of_instance('kaboost_drift_total')}[{RATE}]) > 0"),
    ("Restarts", "orange", f"changes({of_instance('kaboost_learner_restarts_total')}[{RATE}]) > 0"),
    ("Rollbacks", "green", f"increase({of_instance('kaboost_rollbacks_total')}[{RATE}]) > 0"),
    ("Promotions", "blue", f"increase({of_instance('kaboost_promotions_total')}[{RATE}]) > 0"),
    ("Fallbacks", "purple", f"changes({of_instance('kaboost_serving_fallback')}[{RATE}]) > 0"),
)
# The selectors: a model, and the instance that has it. A learner that has been down for hours still
# has a name.
VARIABLES = {
    "model": "last_over_time(kaboost_model_info[7d])",
    "instance": 'last_over_time(kaboost_model_info{model="$model"}[7d])',
}
FOLDER = Path(__file__).parent / "dashboards"


def build(word: str, rows: Rows) -> Dashboard:
    """Build one dashboard; its fixed uid is `kaboost-<word>`."""
    board = Dashboard(f"Kaboost {word.capitalize()}").uid(f"kaboost-{word}").tags(["kaboost"])
    board.readonly().time("now-1h", "now").refresh("15s").tooltip(DashboardCursorSync.CROSSHAIR)
    for name, query in VARIABLES.items():
        board.with_variable(_variable(name, query))
    board.link(_others())
    for title, color, expression in MARKS:
        board.annotation(_mark(title, color, expression))
    for title, panels in rows.items():
        board.with_row(Row(title))
        for panel in panels:
            board.with_panel(panel)
    return board


def render(board: Dashboard) -> str:
    """Render a dashboard as the committed file; panels are numbered in order."""
    tree = json.loads(JSONEncoder(sort_keys=True).encode(board.build()))
    for number, panel in enumerate(tree["panels"], 1):
        panel["id"] = number
    return json.dumps(tree, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def files() -> dict[Path, str]:
    """Return the content of every file."""
    boards: dict[str, Rows] = {
        "overview": overview.ROWS,
        "learning": learning.ROWS,
        "data": data.ROWS,
    }
    return {FOLDER / f"{word}.json": render(build(word, rows)) for word, rows in boards.items()}


def _variable(name: str, query: str) -> QueryVariable:
    """Add a selector: the values of the label that has its name."""
    variable = QueryVariable(name).label(name.capitalize()).datasource(SOURCE)
    variable.query(f"query_result({query})").regex(f'/{name}="([^"]+)"/')
    return variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(
        VariableSort.ALPHABETICAL_ASC
    )


def _mark(title: str, color: str, expression: str) -> AnnotationQuery:
    """Mark the moments at which something happened."""
    mark = AnnotationQuery().name(title).datasource(SOURCE).enable(True)
    return mark.icon_color(color).expr(expression)


def _others() -> DashboardLink:
    """Link each dashboard to the others."""
    link = DashboardLink("Kaboost").type(DashboardLinkType.DASHBOARDS).tags(["kaboost"])
    return link.include_vars(True).keep_time(True)


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
        print(path)
