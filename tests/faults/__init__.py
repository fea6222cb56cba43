"""Bad input and bad days, on real processes: a clear error where there is someone to tell, the others unharmed."""
