"""The reference workload inside ranks, a DistributedDataParallel trainer; imports torch, numpy and itself."""
