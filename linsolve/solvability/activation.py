"""Activation function of hidden units: linear, ReLU, or leaky ReLU with a given slope of negative inputs."""

from __future__ import annotations

import dataclasses
from typing import Any

from linsolve.core.arguments import number, shown

__all__ = ["Activation", "read_activation", "spelled"]

_RULE = "must be None, 'linear', 'relu' or ('leaky_relu', alpha) (activation function of the hidden units)"


@dataclasses.dataclass(frozen=True)
class Activation:
    r"""Leaky ReLU, :math:`\phi(z) = z` for :math:`z > 0` and :math:`\alpha z` otherwise.

    .. math:: \phi(z) = g z + (1 - g) |z|, \qquad g = (1 + \alpha) / 2 .

    The slope at 0 is taken as :math:`\phi'(0) = g`, the mean of both sides. Programs that take the slope
    :math:`\alpha` for :math:`z \le 0`, such as PyTorch, differ for inputs of exactly 0.

    Parameters
    ----------
    alpha : float
        Slope of negative inputs, above -1; 0 is ReLU and 1 is linear.
    """

    alpha: float

    @property
    def gain(self) -> float:
        """Slope ``g`` of the odd part."""
        return (1 + self.alpha) / 2

    def value(self, xp: Any, z: Any) -> Any:
        """Return ``phi(z)``."""
        return self.gain * z + (1 - self.gain) * xp.abs(z)

    def slope(self, xp: Any, z: Any) -> Any:
        """Return ``phi'(z)``; at 0 the gain, the mean of both sides."""
        return self.gain + (1 - self.gain) * xp.sign(z)

    @property
    def given(self) -> str:
        """The argument that a user gives."""
        return "'relu'" if self.alpha == 0 else f"('leaky_relu', {self.alpha!r})"

    def __str__(self) -> str:
        return "ReLU network" if self.alpha == 0 else f"leaky ReLU network (alpha = {self.alpha:g})"


def read_activation(who: str, given: Any) -> Activation | None:
    """Return the checked activation function, None for a linear one.

    Raises
    ------
    ValueError
        If it is none of the four, or alpha is out of range; the gain is positive for alpha above -1.
    """
    if given is None or (isinstance(given, str) and given == "linear"):
        return None
    if isinstance(given, str) and given == "relu":
        return Activation(0.0)
    if not (isinstance(given, tuple | list) and len(given) == 2 and given[0] == "leaky_relu"):
        raise ValueError(f"{who}: activation = {shown(given)} {_RULE}; say ('leaky_relu', 0.01)")
    meaning = "slope of negative inputs of the leaky ReLU"
    alpha = number(who, "activation[1]", given[1], meaning=meaning, domain="(-1, 1e6]", example=0.01)
    return None if alpha == 1 else Activation(alpha)


def spelled(who: str, text: str | None) -> Any:
    """Return the activation function that a command line spells ``relu``, ``leaky_relu:0.2`` or ``linear``."""
    name, colon, slope = (text or "linear").partition(":")
    try:
        if name in ("linear", "relu") and not colon:
            return name
        if name == "leaky_relu":
            return name, float(slope)
    except ValueError:
        pass
    raise ValueError(
        f"{who}: activation = {shown(text)} must be linear, relu or leaky_relu:ALPHA (activation function of the "
        "hidden units); say leaky_relu:0.01"
    )
