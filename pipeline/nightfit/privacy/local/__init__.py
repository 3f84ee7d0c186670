"""Local privacy: each record's own randomiser, and the server that learns from reports alone.

A report is what a record's owner would send to a server that is not trusted: private by itself, whatever the server does with it. Here the
randomiser runs inside a task over the record's shard, from the record's own keystream; weights, averages and paths are functions of
reports alone.

Contents
--------
randomisers
    One file each: how a bounded gradient becomes a report.
curriculum
    Which records contribute in an epoch.
schedule
    Which record reports when.
reports
    The fused pass from a block to exact integer sums of reports.
server
    Projected gradient steps on mean reports.
protocol
    What is asked of the records' owners: the sum of a batch's reports, or steps through many batches.

Imports queries' kernels, losses and numerics.
"""
