"""The slow twin of the encoder: event by event, plain Python, written from docs/encoding.md."""

import hashlib
import math
import re
from datetime import datetime

import numpy as np


class NaiveEncoder:
    """Features as dicts in, lists of floats out."""

    def __init__(self, schema):
        self.schema = schema
        self.seen = dict.fromkeys(schema, 0)
        self.mean = dict.fromkeys(schema, 0.0)
        self.squares = dict.fromkeys(schema, 0.0)
        self.values = {name: [] for name in schema}  # of a category, in order of first sight

    def encode(self, row):
        parts = {"number": [], "boolean": [], "category": [], "datetime": [], "text": []}
        for name, kind in self.schema.items():
            parts[kind] += getattr(self, kind)(name, row.get(name))
        return [value for part in parts.values() for value in part]

    def learn(self, row, weight):
        encoded = self.encode(row)
        if weight > 0:
            for name, kind in self.schema.items():
                value = row.get(name)
                if value is not None and kind == "number":
                    self.move(name, clip(value, 1e150))
                if value is not None and kind == "category":
                    self.register(name, value)
        return encoded

    def number(self, name, value):
        if value is None or self.seen[name] == 0:
            return [0.0]
        sd = math.sqrt(self.squares[name] / self.seen[name])
        if sd == 0:
            return [0.0]
        return [clip((clip(value, 1e150) - self.mean[name]) / sd, 1e6)]

    def move(self, name, value):
        before = value - self.mean[name]
        self.seen[name] += 1
        self.mean[name] += before / self.seen[name]
        self.squares[name] += before * (value - self.mean[name])

    def boolean(self, name, value):
        return [{True: 1.0, False: -1.0, None: 0.0}[value]]

    def category(self, name, value):
        columns = [0.0] * 32
        code = self.code(name, value)
        if code is not None:
            columns[code] = 1.0
        return columns

    def code(self, name, value):
        if value is None:
            return 0
        if value in self.values[name]:
            return 9 + self.values[name].index(value)
        if len(self.values[name]) < 23:
            return None  # never seen, and there is room: it gets a code after this event
        digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return 1 + int.from_bytes(digest, "little") % 8

    def datetime(self, name, value):
        if value is None:
            return [0.0] * 6
        clock = datetime.fromisoformat(value).replace(microsecond=0)
        hour = (clock.hour * 3600 + clock.minute * 60 + clock.second) / 3600
        shares = (hour / 24, clock.weekday() / 7, clock.month / 12)
        turns = [2 * math.pi * share for share in shares]
        return [wave(turn) for turn in turns for wave in (math.sin, math.cos)]

    def text(self, name, value):
        counts = [0] * 64
        for word in re.findall(r"\w+", (value or "").casefold()):
            digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
            counts[int.from_bytes(digest, "little") % 64] += 1
        return [float(np.log1p(float(min(count, 255)))) for count in counts]

    def register(self, name, value):
        if value not in self.values[name] and len(self.values[name]) < 23:
            self.values[name].append(value)


def clip(value, limit):
    return max(-limit, min(limit, value))
