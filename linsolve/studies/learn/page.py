"""Template of the report page: plain HTML and CSS, readable when printed."""

from __future__ import annotations

from string import Template

__all__ = ["PAGE", "captions", "map_tex", "map_text", "network_words"]

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
LISTED = 3  # layers of a product that are written out

PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Exact training dynamics: $name</title>
<style>
  body { max-width: 46rem; margin: 2.5rem auto; padding: 0 1.2rem; color: #222; background: #fff;
         font: 17px/1.55 "Source Serif 4", Charter, "Bitstream Charter", Georgia, serif; }
  h1, h2, table, figcaption { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
  h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 1rem; }
  h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; }
  .equation { text-align: center; font-style: italic; margin: 1rem 0; }
  table { border-collapse: collapse; width: 100%; font-size: .84rem; line-height: 1.4; }
  th, td { text-align: left; vertical-align: top; padding: .34rem .7rem .34rem 0; border-bottom: 1px solid #e4e4e4; }
  th { font-weight: 600; width: 32%; } td:nth-child(2) { width: 28%; } td:nth-child(3) { color: #555; }
  figure { margin: 0; break-inside: avoid; } img { width: 100%; height: auto; }
  figcaption { font-size: .88rem; line-height: 1.45; color: #444; }
  a { color: #0072B2; } code { font-size: .88em; }
  footer { margin-top: 2.5rem; border-top: 1px solid #e4e4e4; font-size: .85rem; color: #555; }
</style>
</head>
<body>
<h1>Exact training dynamics of a $layers linear network on $name</h1>
<p>The inputs were centered and whitened in their span, and the targets centered. A $layers linear network y = ${map}x
with small $start was then trained on them by gradient flow, three times: by its closed form, which is exact at
every time; by an ODE integrator; and by gradient descent with a finite step. The network can learn the map
S = ⟨y xᵀ⟩ from the white inputs to the targets:</p>
<p class="equation">$equation</p>
$verdict
$sections
$figures
<footer><p>Files: $files.</p></footer>
</body>
</html>
""")


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


def network_words(depth: int) -> dict[str, str]:
    """Return what the page says about a network of this depth, by placeholder."""
    product = map_text(depth)
    if depth == 2:
        equation = (
            "τ dW₁/dt = W₂ᵀ (S &minus; W₂W₁), &nbsp; τ dW₂/dt = (S &minus; W₂W₁) W₁ᵀ, &nbsp; L = ½ ‖S &minus; W₂W₁‖²"
        )
        return {"layers": "two-layer", "map": product, "start": "random weights", "equation": equation}
    # with W the map and c a mode's strength in it
    power = "" if depth == 1 else f"{depth} |c|<sup>2 &minus; 2/{depth}</sup> "
    equation = f"L = ½ ‖S &minus; {product}‖², &nbsp; τ dc/dt = {power}(s &minus; c) for the strength c of each mode"
    start = "weights along the singular modes of S, the same in every layer,"
    words = {1: "one-layer", 3: "three-layer", 4: "four-layer", 5: "five-layer"}
    return {"layers": words.get(depth, f"{depth}-layer"), "map": product, "start": start, "equation": equation}


def captions(depth: int) -> dict[str, str]:
    """Return the captions that differ from those for two layers, by figure."""
    if depth == 1:
        return {
            "loss": "The part of the loss that can be learned. All modes are learned at one pace, exponentially.",
            "modes": "A network of one layer learns all modes at one pace, whatever their strength; the dashed lines "
            "are the singular values of the data. It has neither plateaus nor stages: these come from depth.",
            "alignment": "Cosine between the network's tangent kernel on the white inputs and the target's, yyᵀ. The "
            "kernel of one layer never changes.",
        }
    if depth == 2:
        return {}
    return {
        "alignment": "Cosine between the network's tangent kernel on the white inputs and the target's, yyᵀ; a frozen "
        "kernel would stay on the dashed line. The layers are aligned with the modes from the start; what changes is "
        "the weight of each mode in the kernel, as one after the other is learned. It stays below 1 because the kernel "
        "serves all directions, and the target is one.",
        "modes": "Each mode of the data is learned along a sigmoid of its own, with a longer plateau and a steeper "
        "rise than in two layers; the dashed lines are the singular values of the data. From equal small strengths, a "
        "mode of strength s takes a time proportional to 1/s. With fewer hidden units than modes, only the strongest "
        "are learned.",
    }
