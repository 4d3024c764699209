"""Compilation of kernels, and arithmetic that all of them share: takes plain functions over arrays,
gives compiled ones. Every part of `kaboost.models` may import it.
"""
