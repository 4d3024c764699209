"""Specifications for tests to which the model is not the point."""

from __future__ import annotations

from typing import Any

LINEAR: dict[str, Any] = {"rule": "sgb", "bank": {"kind": "linear", "n": 20, "step": "nag"}}
