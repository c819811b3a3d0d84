"""Signs moved from what is computed at every time to what is computed once for each member."""

from __future__ import annotations

from linsolve.engines.trace import Program

__all__ = ["negated", "turned"]

_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def negated(program: Program, k: int) -> int:
    """Return the step ``-k`` of a program: a constant of a constant, and of ``-y`` the `y`."""
    step = program.steps[k]
    if step.op == "neg":
        return step.args[0]
    if step.op == "constant":
        return program.add("constant", (), step.kind, -step.data)
    return program.add("neg", (k,), step.kind)


def turned(program: Program, numbers: set[int]) -> Program:
    """Return a program of the same values, bit by bit, in which ``-(a b)`` and ``a (-b)`` are ``(-a) b``.

    Only where `b` depends on time and `a` does not, and the product is one of `numbers`: steps that are never nan,
    which has a sign too. A product of which nobody wants more than its negative, or how that compares, is not computed.
    """
    new, at, opposite = Program(), dict[int, int](), dict[int, int]()
    timed, used = program.depends(("t",)), program.used()
    users = dict[int, list[int]]()
    for k in used:
        for a in program.steps[k].args:
            users.setdefault(a, []).append(k)
    results = set(program.outputs.values())

    def compares(k: int) -> bool:
        return program.steps[k].op in _TURNED and any(program.steps[a].op == "constant" for a in program.steps[k].args)

    for k in used:
        step = program.steps[k]
        op, args = step.op, step.args
        if op == "mul" and k in numbers and timed[args[0]] != timed[args[1]]:
            once, late = args if timed[args[1]] else args[::-1]
            inner = program.steps[late]
            if inner.op == "neg" and inner.args[0] in at:
                at[k] = new.add("mul", (negated(new, at[once]), at[inner.args[0]]), step.kind)
                continue
            if k not in results and all(program.steps[j].op == "neg" or compares(j) for j in users[k]):
                opposite[k] = new.add("mul", (negated(new, at[once]), at[late]), step.kind)
                continue
        if op == "neg" and args[0] in opposite:
            at[k] = opposite[args[0]]
        elif any(a in opposite for a in args):
            given = tuple(opposite[a] if a in opposite else negated(new, at[a]) for a in args)
            at[k] = new.add(_TURNED[op], given, step.kind)
        else:
            at[k] = new.add(op, tuple(at[a] for a in args), step.kind, step.data)
        if op == "input":
            new.inputs[step.data] = at[k]
    new.outputs = {name: at[k] for name, k in program.outputs.items()}
    return new
