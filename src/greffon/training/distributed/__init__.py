"""Several processes, one run: DDP and FSDP, launched by torchrun or by us."""
