"""Real third-party clients, and the wire behaviour of q's own scripts, against real elastick processes."""
