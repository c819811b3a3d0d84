"""Mutation score of the tests: the share of small changes of the source that a quick test rejects."""
