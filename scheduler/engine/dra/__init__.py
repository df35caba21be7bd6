"""Dynamic Resource Allocation: finds devices for resource claims, in kube-scheduler's order.

Pure functions and classes over API objects. The plugin DynamicResources calls them.
"""
