"""The asymptotic and statistical statements, one file each; `ALL` is the registry that everything generic reads."""

from linsolve.law import Law

__all__ = ["ALL"]

ALL: tuple[type[Law], ...] = ()
