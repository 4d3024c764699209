"""The kinds of panels in the dashboards, all on one data source and one instance."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries, trend
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.common import (
    BigValueGraphMode,
    BigValueTextMode,
    LegendDisplayMode,
    LegendPlacement,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    Threshold,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from deploy.grafana.queries import of_instance

SOURCE = DataSourceRef(type_val="prometheus", uid="prometheus")  # as provisioning/ names it
WIDTH = 24  # of the whole grid

Rows = Mapping[str, Sequence[Builder[model.Panel]]]  # by title of the row
Kind = TypeVar("Kind", stat.Panel, timeseries.Panel, trend.Panel)


class About(NamedTuple):
    """Title, unit and description of a panel."""

    title: str
    unit: str
    description: str


class Query(NamedTuple):
    """One expression, and the legend of its series."""

    expression: str
    legend: str


def number(about: About, expression: str, *, red_from: float | None = None) -> stat.Panel:
    """Show the current value over its history, red from a limit on."""
    steps = [Threshold(value=None, color="green")]
    if red_from is not None:
        steps.append(Threshold(value=red_from, color="red"))
    limits = dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)
    panel = _described(stat.Panel(), about).thresholds(limits).graph_mode(BigValueGraphMode.AREA)
    return panel.with_target(_target(Query(expression, about.title))).height(4).span(WIDTH // 4)


def name(about: About, query: Query) -> stat.Panel:
    """Show the labels of an info metric, whose value is always 1."""
    panel = _described(stat.Panel(), about).text_mode(BigValueTextMode.NAME)
    panel.graph_mode(BigValueGraphMode.NONE).with_target(_target(query).instant())
    return panel.height(4).span(WIDTH // 4)


def lines(about: About, *queries: Query) -> timeseries.Panel:
    """Show series over time."""
    legend = common.VizLegendOptions().show_legend(True)
    legend.display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    panel = _described(timeseries.Panel(), about).legend(legend)
    for letter, query in zip("ABCDEF", queries, strict=False):
        panel.with_target(_target(query).ref_id(letter))
    return panel.height(8).span(WIDTH // 3)


def curve(about: About, metric: str, label: str, of_several: str = "max") -> trend.Panel:
    """Plot the current values of a metric over one of its labels, which is a number; of several
    structures the largest or smallest value.
    """
    query = Query(f"{of_several} by ({label}) ({of_instance(metric)})", about.title)
    conversion = {"targetField": label, "destinationType": "number"}
    steps = {
        "convertFieldType": {"conversions": [conversion], "fields": {}},
        "sortBy": {"sort": [{"field": label}], "fields": {}},  # as text 10 sorts before 2
        "organize": {"excludeByName": {"Time": True}},
    }
    panel = _described(trend.Panel(), about).x_field(label)
    panel.with_target(_target(query).instant().format(PromQueryFormat.TABLE))
    for step, options in steps.items():
        panel.with_transformation(DataTransformerConfig(id_val=step, options=options))
    return panel.height(8).span(WIDTH // 3)


def _described(panel: Kind, about: About) -> Kind:
    panel.title(about.title).unit(about.unit).description(about.description)
    return panel.datasource(SOURCE)


def _target(query: Query) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expression).legend_format(query.legend)
    return target.datasource(SOURCE).ref_id("A")
