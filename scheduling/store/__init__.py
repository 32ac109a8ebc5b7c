"""All SQL: ``load`` makes a snapshot, ``commit`` is the only writer of state, ``record`` keeps facts, ``queries`` reads."""
