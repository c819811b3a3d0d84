"""LLVM IR of the compiled flow map of small networks: a SIMD vector holds eight time points of one network.

The formulas are those of `flow_map`. Sums of products are accumulated four at a time, which shares loads and hides
latency. If fewer than four sums remain, some of them are computed twice. Results of neighbouring times are as far apart
as those of all networks together: their memory is asked for while they are computed.
"""

from __future__ import annotations

from linsolve.engines.elementary import exp, expm1
from linsolve.engines.nested_loops import NestedLoops, Value

__all__ = ["PAGE", "SHORT", "WIDTH", "FlowMapLoops"]

# times side by side: one vector of the widest processors, one cache line
WIDTH = 8
# numbers of a cache line and of a page of memory
LINE, PAGE = 8, 512
# product of rate and time below which the change of the root is computed, as it is more accurate than the root
SHORT = 0.5
# arrays of the members, of each of their times, and of results
OWN = ("basis", "q", "root", "rate", "speed", "twin", "begin", "first", "size", "pace")
TIMED = ("now", "short", "excess")
OUT = ("product", "gram_in", "gram_out")
# arrays of vectors, reused for each member and time; the last one is of doubles
SPACE = (
    "up", "half", "square", "change", "column", "diagonal", "bracket", "turn", "gentle", "moved", "found", "number",
    "pairs",
)  # fmt: skip
SIZES = ("n", "r", "n_in", "n_out", "halved", "times", "blocks", "members", "first", "last")


class FlowMapLoops(NestedLoops):
    """Writer of the function `fill`: loops over members and their times."""

    def __init__(self) -> None:
        super().__init__("fill", (*OWN, *TIMED, *OUT, *SPACE), SIZES, WIDTH)
        self.n, self.r = self.sizes["n"], self.sizes["r"]
        self.loop(self.sizes["first"], self.sizes["last"], self._member)

    def _member(self, m: Value) -> None:
        n, r = self.n, self.r
        spans = (n * n, n * r, n * r, n, n, n, n, r, r, self.integer(1))
        for name, span in zip(OWN, spans, strict=True):
            self.begin(name, m * span)
        self._pairs()
        self.loop(0, self.sizes["blocks"], lambda block: self._times(m, block))

    def _pairs(self) -> None:
        """Set the products of all pairs of columns of a member's q."""
        n, r = self.n, self.r

        def column(a: Value, row: Value) -> tuple[Value]:
            def other(b: Value) -> None:
                self.loop(0, n, lambda i: self.multiply("q", i * r + a, i * r + b, "pairs", (row + b) * n + i))

            self.loop(0, a + 1, other)
            return (row + a + 1,)

        self.loop(0, r, column, self.integer(0))

    def _times(self, m: Value, block: Value) -> None:
        """Compute one block of times of a member."""
        n, r, n_in, n_out = self.n, self.r, self.sizes["n_in"], self.sizes["n_out"]
        halved, at = self.sizes["halved"], m * self.sizes["blocks"] + block
        active = self.least(WIDTH, self.sizes["times"] - block * WIDTH)
        now, some_short = self.load("now", at), self.index("short", at) > 0
        where = block * WIDTH * self.sizes["members"] + m
        self._awaited("product", n_out * n_in, active, where)
        self._weigh(now, some_short)
        self._awaited("gram_in", n_in * n_in, active, where)
        self._bracket()
        self._awaited("gram_out", n_out * n_out, active, where)
        self._factor()
        self.store("excess", at, self._inverse())
        self._product("q", 0, n, r, "begin", None, "turn", 0, "moved", 0)
        self._paired()
        self._product("basis", 0, n_in, n, None, n - halved, "moved", 0, "found", 0)
        self._product("basis", n_in * n + halved, n_out, n, None, n - halved, "moved", halved * r, "found", n_in * r)
        self.choose(some_short, lambda: self._gentle(now))
        inputs, outputs = (self.integer(0), n_in), (n_in * r, n_out)
        for name, left, right in zip(OUT, (outputs, inputs, outputs), (inputs, inputs, outputs), strict=True):
            self._outer(*left, *right, same=left is right)
            self._written(name, left[1] * right[1], active, where)

    def _weigh(self, now: Value, some_short: str) -> None:
        """Set ``sqrt(n/c)``, its square, and ``1/c``, or ``1/c - 1`` at short times, of every mode.

        Twice the fastest rate times time must be below 700.
        """
        none, one, slow = self.number(0.0), self.number(1.0), self.entry("pace", 0) * now

        def size(i: Value) -> None:
            twin = self.index("twin", i)

            def again() -> None:
                self.store("up", i, self.load("up", twin))
                self.store("half", i, self.load("half", twin))

            def first() -> None:
                x = self.entry("speed", i) * now
                twice = x + x
                decayed = none - self.elementary(expm1, none - twice)
                self.store("up", i, self.elementary(exp, x))
                mean = self.if_less(none, x, decayed / self.if_less(none, x, twice, one), one)
                self.store("half", i, self.sqrt(now * mean))

            self.choose(twin < i, again, first)

        def weight(i: Value) -> None:
            up, half, rate = self.load("up", i), self.load("half", i), self.entry("rate", i)
            rising = half * up
            half = self.if_less(none, rate, rising, half)
            up = self.if_less(none, rate, up, one / up)
            self.store("half", i, half)
            self.store("square", i, half * half)

            def changed() -> tuple[Value]:
                return (self.if_less(slow, self.number(SHORT), self.elementary(expm1, rate * now), up),)

            self.store("change", i, *self.choose(some_short, changed, lambda: (up,)))

        self.loop(0, self.n, size)
        self.loop(0, self.n, weight)

    def _bracket(self) -> None:
        """Set the scales of the columns and the lower triangle of the bracket."""
        n, r, one = self.n, self.r, self.number(1.0)

        def scaled(a: Value) -> None:
            level = self.entry("size", a) * self.load("half", self.index("first", a))
            self.store("column", a, self.if_less(one, level, one / level, one))

        def column(a: Value, row: Value) -> tuple[Value]:
            def four(b: Value) -> None:
                each = (b, *(self.least(b + k, a) for k in (1, 2, 3)))
                begin = self.largest(self.index("first", a), self.least(*(self.index("first", k) for k in each)))
                starts = [(row + k) * n for k in each]

                def add(i: Value, *sums: Value) -> list[Value]:
                    weight = self.load("square", i)
                    return [self.fma(self.entry("pairs", p + i), weight, s) for p, s in zip(starts, sums, strict=True)]

                sums, scale = self.loop(begin, n, add, *[self.number(0.0)] * 4), self.load("column", a)
                for k, s in zip(each, sums, strict=True):
                    self.store("bracket", a * r + k, s * (scale * self.load("column", k)))

            self.loop(0, a + 1, four, step=4)
            scale, end = self.load("column", a), a * (r + 1)
            self.store("bracket", end, self.fma(scale, scale, self.load("bracket", end)))
            return (row + a + 1,)

        self.loop(0, r, scaled)
        self.loop(0, r, column, self.integer(0))

    def _factor(self) -> None:
        """Overwrite the bracket by its Cholesky factor, reciprocals on the diagonal; nan where it is not definite."""
        r, none = self.r, self.number(0.0)

        def four(a: Value, b: Value, pivot: Value | None = None) -> Value:
            rows = [k * r for k in (a, *(self.least(a + k, r - 1) for k in (1, 2, 3)))]

            def subtract(k: Value, *sums: Value) -> list[Value]:
                x = none - self.load("bracket", b * r + k)
                return [self.fma(self.load("bracket", p + k), x, s) for p, s in zip(rows, sums, strict=True)]

            sums = self.loop(0, b, subtract, *(self.load("bracket", p + b) for p in rows))
            pivot = pivot or self.number(1.0) / self.sqrt(sums[0])
            for p, s in zip(reversed(rows), reversed(sums), strict=True):
                self.store("bracket", p + b, s * pivot)
            return pivot

        def column(b: Value) -> None:
            pivot = four(b, b)
            self.loop(b + 4, r, lambda a: four(a, b, pivot) and None, step=4)
            self.store("bracket", b * (r + 1), pivot)

        self.loop(0, r, lambda b: self.store("diagonal", b, self.load("bracket", b * (r + 1))))
        self.loop(0, r, column)

    def _inverse(self) -> Value:
        """Set ``turn[b, a]``, b up to a, to ``column L^-T``, and return the excess."""
        r, none = self.r, self.number(0.0)

        def column(a: Value) -> None:
            pivot = self.load("bracket", a * (r + 1))

            def four(b: Value) -> None:
                rows = [k * r for k in (b, *(self.least(b + k, a - 1) for k in (1, 2, 3)))]

                def subtract(k: Value, *sums: Value) -> list[Value]:  # entries left of the diagonal are zero
                    x = none - self.load("bracket", a * r + k)
                    return [self.fma(self.load("turn", p + k), x, s) for p, s in zip(rows, sums, strict=True)]

                sums = self.loop(b, a, subtract, *[none] * 4)
                for p, s in zip(rows, sums, strict=True):
                    self.store("turn", p + a, s * pivot)

            self.loop(0, a, four, step=4)
            self.store("turn", a * (r + 1), pivot)

        def row(b: Value, excess: Value) -> tuple[Value]:
            scale = self.load("column", b)

            def square(a: Value, total: Value) -> tuple[Value]:
                x = self.load("turn", b * r + a)
                self.store("turn", b * r + a, x * scale)
                return (self.fma(x, x, total),)

            (total,) = self.loop(b, r, square, none)
            return (self.fma(total, self.load("diagonal", b), excess),)

        self.loop(0, r, column)
        (excess,) = self.loop(0, r, row, none - self.real(r))
        return excess

    def _product(
        self, left: str, start: Value | int, rows: Value, stride: Value, begin: str | None, columns: Value | None,
        right: str, low: Value | int, into: str, top: Value | int, add: bool = False,
    ) -> None:  # fmt: skip
        """Set ``into = left right``, or add to it if `add`, with `left` common to all times.

        Row i of `left` is 0 before entry ``begin[i]``. Without a number of columns, `right` is upper triangular.
        `left` begins at entry `start`, a row every `stride` entries; `right` and `into` begin at vectors `low` and
        `top`.
        """
        r = self.r

        def two(i: Value) -> None:
            each = (i, self.least(i + 1, rows - 1))
            lefts, outs = [k * stride + start for k in each], [k * r + top for k in each]
            skipped = self.least(*(self.index(begin, k) for k in each)) if begin else 0

            def four(a: Value) -> None:
                pair = (a, self.least(a + 1, r - 1))
                places = [o + k for o in outs for k in pair]

                def sums(k: Value, *sums: Value) -> list[Value]:
                    x = [self.entry(left, p + k) for p in lefts]
                    y = [self.load(right, k * r + b + low) for b in pair]
                    factors = [(one, other) for one in x for other in y]
                    return [self.fma(*each, s) for each, s in zip(factors, sums, strict=True)]

                first = [self.load(into, o) if add else self.number(0.0) for o in places]
                end = self.least(a + 2, r) if columns is None else columns
                for o, s in zip(places, self.loop(skipped, end, sums, *first), strict=True):
                    self.store(into, o, s)

            self.loop(0, r, four, step=2)

        self.loop(0, rows, two, step=2)

    def _paired(self) -> None:
        """Multiply rows by their changes; combine pairs ``(v, u), (v, -u)`` of the basis into sum and difference."""
        n, r = self.n, self.r

        def changed(i: Value) -> None:
            x = self.load("change", i)
            self.loop(i * r, (i + 1) * r, lambda a: self.store("moved", a, self.load("moved", a) * x))

        def combined(i: Value) -> None:
            def each(a: Value) -> None:
                one, other = i * r + a, (n - 1 - i) * r + a
                x, y = self.load("moved", one), self.load("moved", other)
                self.store("moved", one, x + y)
                self.store("moved", other, y - x)

            self.loop(0, r, each)

        self.loop(0, n, changed)
        self.loop(0, self.sizes["halved"], combined)

    def _gentle(self, now: Value) -> None:
        """Add the initial root at short times, where only the change was transformed by the basis."""
        slow = self.entry("pace", 0) * now

        def chosen(k: Value) -> None:
            x = self.if_less(slow, self.number(SHORT), self.load("turn", k), self.number(0.0))
            self.store("gentle", k, x)

        self.loop(0, self.r * self.r, chosen)
        self._product("root", 0, self.n, self.r, None, None, "gentle", 0, "found", 0, add=True)

    def _outer(self, top: Value, rows: Value, low: Value, columns: Value, same: bool) -> None:
        """Set the products of rows from `top` on with rows from `low` on; only one triangle if they are the same."""
        r = self.r

        def two(i: Value) -> None:
            each = (i, self.least(i + 1, rows - 1))

            def four(j: Value) -> None:
                pair = (j, self.least(j + 1, columns - 1))
                lefts, rights = [k * r + top for k in each], [k * r + low for k in pair]

                def add(k: Value, *sums: Value) -> list[Value]:
                    x, y = ([self.load("found", p + k) for p in places] for places in (lefts, rights))
                    factors = [(one, other) for one in x for other in y]
                    return [self.fma(*both, s) for both, s in zip(factors, sums, strict=True)]

                sums = self.loop(0, r, add, *[self.number(0.0)] * 4)
                corners = [(a, b) for a in each for b in pair]
                for (a, b), s in zip(corners, sums, strict=True):
                    self.store("number", a * columns + b, s)
                    if same:
                        self.store("number", b * columns + a, s)

            self.loop(0, i + 1 if same else columns, four, step=2)

        self.loop(0, rows, two, step=2)

    def _awaited(self, into: str, size: Value, active: Value, where: Value) -> None:
        """Ask for the memory of small results of the active times, so that writing them does not wait for it.

        Processors themselves ask for the rest of a page of which they write the begin.
        """
        where, step = where * size, self.sizes["members"] * size

        def one(k: Value) -> None:
            start = where + k * step
            self.loop(0, size, lambda at: self.prefetch(into, start + at), step=LINE)

        self.choose(size < PAGE, lambda: self.loop(0, active, one))

    def _written(self, into: str, size: Value, active: Value, where: Value) -> None:
        """Write the matrices of the active times from `where` on, in units of their size."""
        where, step = where * size, self.sizes["members"] * size

        def transposed() -> None:
            def part(at: Value) -> None:
                begin = self.least(at, size - WIDTH)
                self.unpack("number", begin, into, where + begin, step)

            self.loop(0, size, part, step=WIDTH)

        def by_number() -> None:
            def one(k: Value) -> None:
                self.loop(0, size, lambda at: self.copy("number", at * WIDTH + k, into, where + k * step + at))

            self.loop(0, active, one)

        self.choose(self.least(active, size) >= WIDTH, transposed, by_number)
