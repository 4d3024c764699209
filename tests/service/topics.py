"""Ten topics made in the style of real ones: seeded generators of records."""

import json
import random
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

COUNT = 200
START = datetime(2026, 11, 20, 10, tzinfo=UTC)
Record = dict[str, Any]


class Example(NamedTuple):
    """A topic, what a user has to pass, and what has to be found."""

    records: Callable[[random.Random, int], Record]
    label: str
    task: str
    flags: tuple[str, ...] = ()
    id: str | None = None
    timestamp: str | None = None
    ignored: tuple[str, ...] = ()
    kinds: dict[str, str] = {}  # noqa: RUF012 # never changed
    envelope: str = "none"


def draw(example: Example, count: int = COUNT) -> Iterator[bytes]:
    """Write the records of a topic."""
    source = random.Random(7)
    for k in range(count):
        yield json.dumps(example.records(source, k)).encode()


def at(k: int, step: float = 13.0) -> datetime:
    """Return the time of a record."""
    return START + timedelta(seconds=step * k)


def ms(k: int) -> int:
    """Return the time of a record in milliseconds since 1970."""
    return int(at(k).timestamp() * 1000)


def some_uuid(source: random.Random) -> str:
    """Draw a UUID."""
    return str(uuid.UUID(int=source.getrandbits(128), version=4))


def fraud(source: random.Random, k: int) -> Record:
    """Card payments, nested, with nulls and a numeric merchant code."""
    amount = round(source.lognormvariate(3, 1), 2)
    return {
        "transaction_id": some_uuid(source),
        "ts": ms(k),
        "amount": amount,
        "currency": source.choice(["EUR", "USD", "GBP"]),
        "merchant": {"id": f"m{source.randrange(30)}", "mcc": source.choice([5411, 5812, 4829])},
        "card": {"country": source.choice(["PT", "DE", None]), "is_virtual": source.random() < 0.3},
        "is_fraud": amount > 60 or source.random() < 0.02,
    }


def clicks(source: random.Random, k: int) -> Record:
    """Impressions of advertisements: label 0 or 1, epoch seconds."""
    slot = source.choice(["top", "side", "bottom"])
    return {
        "impression_id": f"imp-{k:08d}",
        "event_time": ms(k) // 1000,
        "user_agent": source.choice(["Chrome", "Safari", "Firefox"]),
        "slot": slot,
        "campaign_id": source.randrange(12),
        "bid_price": round(source.random(), 3),
        "click": int(slot == "top" and source.random() < 0.6),
    }


def sensors(source: random.Random, k: int) -> Record:
    """Machines: numbers in text, gaps, a failure in words."""
    heat = source.gauss(60, 10)
    reading = {
        "device": f"press-{source.randrange(6)}",
        "timestamp": at(k).isoformat().replace("+00:00", "Z"),
        "temperature": f"{heat:.1f}",
        "vibration": None if source.random() < 0.1 else round(source.gauss(1, 0.2), 3),
        "rpm": source.randrange(900, 1500),
        "failure": "yes" if heat > 65 else "no",
    }
    if source.random() < 0.2:
        del reading["rpm"]
    return reading


def orders(source: random.Random, k: int) -> Record:
    """A table's changes by Debezium: an order comes again when it changes."""
    total = source.randrange(500, 20_000)
    row = {
        "order_id": 1000 + k // 2,
        "customer_id": source.randrange(40),
        "total_cents": total,
        "channel": source.choice(["web", "app", "shop"]),
        "items": source.randrange(1, 9),
        "created_at": at(k).isoformat(),
        "returned": total > 12_000,
    }
    return {
        "before": None,
        "after": row,
        "source": {"connector": "postgresql", "table": "orders", "lsn": 77_000 + k},
        "op": "c" if k % 2 == 0 else "u",
        "ts_ms": ms(k),
    }


def logistics(source: random.Random, k: int) -> Record:
    """Shipments: a delay in minutes, local times without an offset."""
    distance = source.uniform(5, 900)
    return {
        "shipment": {"tracking_number": f"1Z{source.randrange(10**12):012d}", "weight_kg": 2.5},
        "origin": source.choice(["LIS", "OPO", "MAD"]),
        "destination": source.choice(["BER", "PAR", "ROM"]),
        "distance_km": round(distance, 1),
        "dispatched_at": at(k).strftime("%Y-%m-%dT%H:%M:%S"),
        "stops": [round(source.random(), 2), round(source.random(), 2)],
        "delay_minutes": round(0.1 * distance + source.gauss(0, 5), 1),
    }


def credit(source: random.Random, k: int) -> Record:
    """Loans: codes with leading zeros, an outcome in words."""
    income = source.lognormvariate(10, 0.4)
    return {
        "application_id": 900_000 + k,
        "applied_at": at(k, 3_600).isoformat(),
        "income": round(income),
        "purpose": source.choice(["car", "house", "study"]),
        "branch_code": f"{source.randrange(20):04d}",
        "employed": source.choice(["true", "false"]),
        "outcome": "defaulted" if income < 18_000 else "paid",
    }


def churn(source: random.Random, k: int) -> Record:
    """Customers: a column that is the label under another name."""
    months = source.randrange(1, 60)
    leaves = months < 12
    return {
        "customerId": f"C{10_000 + k}",
        "tenureMonths": months,
        "plan": source.choice(["basic", "plus", "pro"]),
        "monthlyCharge": f"{source.uniform(5, 80):.2f}",
        "contract_end_reason": "cancelled" if leaves else "none",
        "lastLogin": at(k, 7_200).date().isoformat(),
        "churned": leaves,
    }


def bids(source: random.Random, k: int) -> Record:
    """Auctions: a price to predict, microseconds since 1970."""
    floor = source.uniform(0.1, 3)
    return {
        "auction": some_uuid(source),
        "ts": ms(k) * 1000,
        "floor": round(floor, 3),
        "site": {
            "domain": f"site{source.randrange(15)}.example",
            "page.type": source.choice(["news", "shop"]),
        },
        "device": {"os": source.choice(["ios", "android"]), "wifi": source.random() < 0.5},
        "clearing_price": round(floor * source.uniform(1, 2), 3),
    }


def telemetry(source: random.Random, k: int) -> Record:
    """Vehicles, as CloudEvents."""
    speed = source.uniform(0, 130)
    mode = "stop" if speed < 20 else "city" if speed < 70 else "motorway"
    return {
        "specversion": "1.0",
        "id": some_uuid(source),
        "source": "/fleet/7",
        "type": "com.example.telemetry",
        "time": at(k).isoformat(),
        "datacontenttype": "application/json",
        "data": {
            "vin": f"VIN{source.randrange(9)}",
            "speed": speed,
            "gear": source.randrange(1, 7),
            "battery": {"volt": 12 + source.random(), "low": source.random() < 0.1},
            "state": mode,
        },
    }


def tickets(source: random.Random, k: int) -> Record:
    """Support: free text, tags, several classes."""
    topic = source.choice(["billing", "login", "shipping"])
    words = ["my", "account", "shows", "please", "help", "since", "monday", "again", "order"]
    return {
        "ticket_id": f"T-{k:06d}",
        "created": at(k).isoformat(),
        "subject": f"Problem with {topic} " + " ".join(source.choices(words, k=6)),
        "tags": source.sample(["vip", "eu", "b2b"], k=2),
        "agent": source.choice(["ana", "rui", None]),
        "reopened": source.choice([0, 1]),
        "category": topic,
    }


TOPICS = {
    "fraud": Example(
        fraud, "is_fraud", "binary", id="transaction_id", timestamp="ts",
        kinds={"merchant.mcc": "category", "card.is_virtual": "boolean", "amount": "number"},
    ),
    "clicks": Example(
        clicks, "click", "binary", id="impression_id", timestamp="event_time",
        kinds={"campaign_id": "category"},
    ),
    "sensors": Example(
        sensors, "failure", "binary", timestamp="timestamp",
        kinds={"temperature": "number", "device": "category"},
    ),
    "orders": Example(
        orders, "returned", "binary", timestamp="created_at", ignored=("order_id",),
        kinds={"customer_id": "category"}, envelope="debezium",
    ),
    "logistics": Example(
        logistics, "delay_minutes", "regression", id="shipment.tracking_number",
        timestamp="dispatched_at", kinds={"stops.0": "number"},
    ),
    "credit": Example(
        credit, "outcome", "binary", id="application_id", timestamp="applied_at",
        kinds={"branch_code": "category", "employed": "boolean"},
    ),
    "churn": Example(
        churn, "churned", "binary", id="customerId",
        kinds={"monthlyCharge": "number", "lastLogin": "datetime"},
    ),
    "bids": Example(
        bids, "clearing_price", "regression", id="auction", timestamp="ts",
        kinds={"site.page.type": "category"},
    ),
    "telemetry": Example(
        telemetry, "data.state", "multiclass", ("--label", "data.state"), id="id",
        timestamp="time", kinds={"speed": "number", "battery.low": "boolean"},
        envelope="cloudevents",
    ),
    "tickets": Example(
        tickets, "category", "multiclass", ("--label", "category"), id="ticket_id",
        timestamp="created", kinds={"subject": "text", "tags": "category"},
    ),
}  # fmt: skip
