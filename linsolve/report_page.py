"""The page on which `report` puts its numbers and figures: plain HTML and CSS, no script, readable when printed."""

from __future__ import annotations

from string import Template

__all__ = ["PAGE"]

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
<h1>Exact training dynamics of a two-layer linear network on $name</h1>
<p>The inputs were centered and whitened in their span, and the targets centered. A two-layer linear network y = W₂W₁x
with small random weights was then trained on them by gradient flow, three times: by its closed form, which is exact at
every time; by an ODE integrator; and by gradient descent with a finite step. All that can be learned is the map
S = ⟨y xᵀ⟩ from the white inputs to the targets:</p>
<p class="equation">τ dW₁/dt = W₂ᵀ (S &minus; W₂W₁), &nbsp; τ dW₂/dt = (S &minus; W₂W₁) W₁ᵀ, &nbsp;
L = ½ ‖S &minus; W₂W₁‖²</p>
$verdict
$sections
$figures
<footer><p>Files: $files.</p></footer>
</body>
</html>
""")
