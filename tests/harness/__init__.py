"""What the client and fault tests stand on: processes, a kdb+ client and codec of their own, logs, other tickerplants."""
