"""The log on EFS, shown with real kernels: an NFS server, and User-Mode Linux guests that mount it."""
