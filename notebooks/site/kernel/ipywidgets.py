"""In the place of ipywidgets while the site is built: a page has no kernel that a slider could move.

Notebooks then show their plain figures, as they do where ipywidgets is not installed.
"""

raise ImportError("a page has no kernel; the notebook shows its plain figure")
