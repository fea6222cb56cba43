"""Tests of the log on EFS with real kernels: an NFS server, and User-Mode Linux guests that mount it."""
