"""What a crawl is doing, for everybody who looks: one read of the frontier, and what follows from comparing several.

`looking` reads; `report` has what comes of it; `rates` and `condition` are its arithmetic, pure; all else are views.
"""
