"""Invalid input and faults on real processes: the offender gets a clear error, and other clients are unaffected."""
