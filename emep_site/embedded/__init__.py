"""Everything on one machine: what ``make up`` starts, and how it is watched and stopped."""
