"""The environment variables that a job may not set for itself. Standard library only: server and agent read it."""

from __future__ import annotations

PREFIXES = ("EMEP_", "SLURM_", "TORCHELASTIC_", "TORCH_ELASTIC_")
NAMES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK",
    "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "TMPDIR",
)  # fmt: skip
LOADING = ("LD_PRELOAD", "LD_AUDIT", "PATH")


def reserved(name: str) -> str:
    """Why ``name`` can't be set by a job, with what to do instead; "" for a free name."""
    if name.startswith(("SLURM_", "TORCHELASTIC_")):
        return "frameworks that see it take the job for one of their own scheduler's; leave it out"
    if name.startswith(PREFIXES) or name in NAMES:
        return "EMEP sets it from what the job was granted; leave it out"
    if name in LOADING:
        return "it decides which program is run; name the program by its full path, or set it inside a script"
    return ""
