"""The programs that run on GPU nodes: the agent, the keeper and the jobs. Never imports Django or ``scheduling``."""
