"""Open faults by subject and argument, which the contract's tests pass over; an entry that is mended is removed."""

KNOWN: dict[str, set[str]] = {}
