"""Wrong steps of gradient descent, each of which `verify` must reject."""

from linsolve.systems.two_layer import line_descent


class NewResidualInDown:
    """The second factor uses the residual after the step of the first."""

    def advanced(self, xp, fixed, now, rule):
        found = super().advanced(xp, fixed, now, rule)
        late = line_descent.advanced(xp, fixed, found, rule._replace(h=rule.h * self.pace))
        return found._replace(down=now.down * late.down / found.down)


class FlowInvariant:
    """The step keeps the flow's invariant."""

    def advanced(self, xp, fixed, now, rule):
        found = super().advanced(xp, fixed, now, rule)
        return found._replace(down=now.up * now.down / found.up)


class HalfStep:
    """The step is half as long."""

    def advanced(self, xp, fixed, now, rule):
        return super().advanced(xp, fixed, now, rule._replace(h=rule.h / 2))


class MomentumWithoutDecayedWeights:
    """Decay is applied to the move in place of the weights."""

    def advanced(self, xp, fixed, now, rule):
        changed = rule if rule.plain else rule._replace(lost=0, momentum=rule.momentum * (1 - rule.lost))
        return super().advanced(xp, fixed, now, changed)


class FirstOrderResidual:
    """The residual omits the term of second order in the step."""

    def advanced(self, xp, fixed, now, rule):
        found = super().advanced(xp, fixed, now, rule)
        b, h = fixed.start.rotation, rule.h * self.pace
        e = 2 * h * b.g * now.residual
        A, B = (b.p * now.up) ** 2, (b.q * now.down) ** 2
        return found._replace(residual=found.residual - e**2 * (A - B) / b.g)


class WrongSharpness:
    """The observable omits the curvature of the output."""

    def described(self, xp, fixed, now):
        found = super().described(xp, fixed, now)
        return found | {"sharpness": found["ntk"]}


WRONG = {
    each.__name__: each
    for each in (
        NewResidualInDown,
        FlowInvariant,
        HalfStep,
        MomentumWithoutDecayedWeights,
        FirstOrderResidual,
        WrongSharpness,
    )
}
