"""The simulated AWS: an API server, a fault proxy in front of it, and instances that are processes of this machine."""
