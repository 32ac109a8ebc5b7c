"""The shapes of requests and answers, for OpenAPI only: nothing is checked, queried or decided by them."""
