"""What a job computes with: tensors, merging, artifacts. Usable in a notebook; knows nothing of jobs."""
