"""The expressions that panels are made from, each about the instance that the reader chose."""

RATE = "$__rate_interval"


def ours(metric: str, **labels: str) -> str:
    """Select a metric of this instance."""
    pairs = {"instance": "$instance", **labels}.items()
    chosen = ", ".join(f'{label}="{value}"' for label, value in pairs)
    return f"{metric}{{{chosen}}}"


def rate(counter: str, by: str = "") -> str:
    """Add up how fast a counter grows, a second."""
    grouped = f" by ({by}) " if by else ""
    return f"sum{grouped}(rate({ours(counter)}[{RATE}]))"


def per(total: str, count: str) -> str:
    """Divide how fast two counters grow."""
    return f"{rate(total)} / {rate(count)}"


def quantile(share: float, histogram: str) -> str:
    """Estimate a quantile of what a histogram saw lately."""
    return f"histogram_quantile({share}, {rate(histogram + '_bucket', 'le')})"


def counted(counter: str) -> str:
    """Add up a counter that shows itself with its first count only; 0 before."""
    return f"sum({ours(counter)}) or sum(0 * {ours('kaboost:up')})"


def mean_loss(**labels: str) -> str:
    """Divide the progressive loss of all events by their weight."""
    total, weight = (
        ours(f"kaboost_progressive_loss_{part}", **labels) for part in ("sum", "count")
    )
    return f"{total} / {weight}"
