"""Who used what? Reports over a time: GPU time, waits, lost work, utilization, and GPUs that were held and idle."""
