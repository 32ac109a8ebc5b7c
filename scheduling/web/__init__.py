"""The pages: each answers one question, in words, before any table. No opinion of its own."""
