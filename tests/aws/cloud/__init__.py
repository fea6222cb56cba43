"""The stand-in cloud: an AWS API server, a fault proxy before it, and instances that are processes of this machine."""
