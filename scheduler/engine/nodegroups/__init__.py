"""Node groups: which groups of nodes an autoscaler could grow, and whether pods fit on a node that a group would add.

`discovery` finds the groups (by labels, `cluster_api`, `karpenter`), and `shapes` describes their nodes.
`templates` adds such nodes to the columns, where `verdicts` runs the filters on them. `estimate` counts the nodes that
pods need, `scale_down` finds what keeps nodes, and `reports` collects what autoscalers report. `answers` puts it
together.
"""
