"""The whole house in one process on virtual time, with seeded faults: messages, processes, nodes, the server, GPUs."""
