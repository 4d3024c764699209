"""PromQL expressions of the panels, each for the selected instance."""

RATE = "$__rate_interval"


def of_instance(metric: str, **labels: str) -> str:
    """Select a metric of the selected instance."""
    pairs = {"instance": "$instance", **labels}.items()
    selector = ", ".join(f'{label}="{value}"' for label, value in pairs)
    return f"{metric}{{{selector}}}"


def rate(counter: str, by: str = "") -> str:
    """Sum the rates of a counter, a second."""
    grouped = f" by ({by}) " if by else ""
    return f"sum{grouped}(rate({of_instance(counter)}[{RATE}]))"


def per(total: str, count: str) -> str:
    """Divide the rates of two counters."""
    return f"{rate(total)} / {rate(count)}"


def quantile(share: float, histogram: str) -> str:
    """Estimate a quantile of the recent observations of a histogram."""
    return f"histogram_quantile({share}, {rate(histogram + '_bucket', 'le')})"


def counted(counter: str, of: str = "", **labels: str) -> str:
    """Sum a counter that does not exist before its first count, or its rate; 0 until then."""
    chosen = of_instance(counter, **labels)
    total = f"rate({chosen}[{RATE}])" if of == "rate" else chosen
    return f"sum({total}) or sum(0 * {of_instance('kaboost:up')})"


def mean_loss(**labels: str) -> str:
    """Divide the progressive loss of all events by their weight."""
    total, weight = (
        of_instance(f"kaboost_progressive_loss_{part}", **labels) for part in ("sum", "count")
    )
    return f"{total} / {weight}"
