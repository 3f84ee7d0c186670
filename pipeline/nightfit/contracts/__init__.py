"""What every loss, link, penalty and bounding must do, as tests over all members, plug-ins included.

`pytest --pyargs nightfit.contracts` runs them where nightfit is installed; `-k Poisson` picks the members of one class. They need pytest,
numpy and hypothesis (`pip install nightfit[contracts]`).
"""
