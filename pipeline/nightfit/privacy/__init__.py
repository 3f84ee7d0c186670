"""Everything that turns a query into a noisy number, and knows what that costs.

Contents
--------
accounting
    Costs, budgets and epsilon: from events to (epsilon, delta) and back. The only importer of dp_accounting.
events
    What a query costs, as frozen data: one file per mechanism.
calibration
    From a query's sensitivity and a price to the scale of its noise: the one builder of events.
noise
    The only sampler of private noise. The only importer of opendp.
account, reading, gate
    The one door: a query is reserved, asked, answered and stored before anyone sees the answer.
local
    Local privacy: randomisers, reports, and the server that learns from reports alone.
audit
    Empirical lower bounds on epsilon; shares no code with the accounting that it checks.

Imports queries and below.
"""
