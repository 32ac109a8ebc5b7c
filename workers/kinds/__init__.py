"""The job programs: one process an attempt and node. They speak through files and never over the network."""
