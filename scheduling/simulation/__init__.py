"""What if: the scheduling core in virtual time, over recorded or invented work. It imports the core only."""
