"""Third-party clients, and emulations of q's own scripts, against real elastick processes."""
