"""All SQL: ``load`` snapshots, ``commit`` alone writes state, ``record`` keeps facts, ``queries`` reads."""
