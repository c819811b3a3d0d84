"""Text of the report page of `learn`."""

from __future__ import annotations

from string import Template

__all__ = ["BODY", "captions", "map_tex", "map_text", "network_words"]

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
ALIGNED = "weights along the singular modes of S, the same in every layer,"
LISTED = 3  # layers of a product that are written out

BODY = Template("""<h1>Exact training dynamics of a $layers linear network on $name</h1>
<p>The inputs were centered and whitened in their span, and the targets centered. A $layers linear network y = ${map}x
with small $start was then trained on them by gradient flow, three times: by its closed form, which is exact at
every time; by an ODE integrator; and by gradient descent with a finite step. The network can learn the map
S = ⟨y xᵀ⟩ from the white inputs to the targets:</p>
<p class="equation">$equation</p>
$verdict
$sections
$figures""")


def map_text(depth: int) -> str:
    """Return the network's map in its layers, as text: W₃W₂W₁."""
    if depth <= LISTED:
        return "".join(f"W{str(k).translate(SUBSCRIPTS)}" for k in range(depth, 0, -1))
    return f"W{str(depth).translate(SUBSCRIPTS)}⋯W₁"


def map_tex(depth: int) -> str:
    """Return the network's map in its layers, as TeX."""
    if depth <= LISTED:
        return "$" + " ".join(f"W_{k}" for k in range(depth, 0, -1)) + "$"
    return rf"$W_{{{depth}}} \cdots W_1$"


def network_words(depth: int, aligned: bool) -> dict[str, str]:
    """Return the sentences of the page about a network of this depth and start, by placeholder."""
    product = map_text(depth)
    if depth == 2:
        equation = (
            "τ dW₁/dt = W₂ᵀ (S &minus; W₂W₁), &nbsp; τ dW₂/dt = (S &minus; W₂W₁) W₁ᵀ, &nbsp; L = ½ ‖S &minus; W₂W₁‖²"
        )
        start = ALIGNED if aligned else "random weights"
        return {"layers": "two-layer", "map": product, "start": start, "equation": equation}
    # with W the map and c a mode's strength in it
    power = "" if depth == 1 else f"{depth} |c|<sup>2 &minus; 2/{depth}</sup> "
    equation = f"L = ½ ‖S &minus; {product}‖², &nbsp; τ dc/dt = {power}(s &minus; c) for the strength c of each mode"
    words = {1: "one-layer", 3: "three-layer", 4: "four-layer", 5: "five-layer"}
    return {"layers": words.get(depth, f"{depth}-layer"), "map": product, "start": ALIGNED, "equation": equation}


def captions(depth: int, aligned: bool) -> dict[str, str]:
    """Return the captions that differ from those for two layers from random weights, by figure."""
    if depth == 1:
        return {
            "loss": "The part of the loss that can be learned. All modes are learned at one pace, exponentially.",
            "modes": "A network of one layer learns all modes at one pace, whatever their strength; the dashed lines "
            "are the singular values of the data. It has neither plateaus nor stages: these come from depth.",
            "alignment": "Cosine between the network's tangent kernel on the white inputs and the target's, yyᵀ. The "
            "kernel of one layer never changes.",
        }
    if not aligned:
        return {}
    alignment = (
        "Cosine between the network's tangent kernel on the white inputs and the target's, yyᵀ; a frozen kernel would "
        "stay on the dashed line. The layers are aligned with the modes from the start; what changes is the weight of "
        "each mode in the kernel, as one after the other is learned. It stays below 1 because the kernel serves all "
        "directions, and the target is one."
    )
    if depth == 2:
        return {"alignment": alignment}
    return {
        "alignment": alignment,
        "modes": "Each mode of the data is learned along a sigmoid of its own, with a longer plateau and a steeper "
        "rise than in two layers; the dashed lines are the singular values of the data. From equal small strengths, a "
        "mode of strength s takes a time proportional to 1/s. With fewer hidden units than modes, only the strongest "
        "are learned.",
    }
