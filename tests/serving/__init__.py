"""Builders for tests of the server: a codec without a model, tokens, and servers that really listen."""
