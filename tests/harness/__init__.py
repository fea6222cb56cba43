"""Shared helpers of the Python tests: processes, an independent kdb+ client and codec, logs, other tickerplants."""
