"""Replacement of ipywidgets during the build of the site: a page has no kernel for sliders.

Notebooks then show their plain figures, as without ipywidgets.
"""

raise ImportError("a page has no kernel; the notebook shows its plain figure")
