"""Answers as a stream: records of a topic in, answers on `predictions.topic` out, exactly once.

It reads the newest snapshot as the API does. Only the roles that build parts import it.
"""
