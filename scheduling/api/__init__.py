"""REST: one input shape, one call of a service, one output shape. Nothing is decided here."""
