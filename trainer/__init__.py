"""Reference workload that runs inside ranks: a DistributedDataParallel trainer. It imports torch and numpy only."""
