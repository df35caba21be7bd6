"""What one version of kube-scheduler does with given feature gates.

Code asks `Rules.enabled` for a rule or a gate by its name and never compares versions. A new version of Kubernetes is
new rows in `version_rules` and `feature_gates`, and new wordings in `herodotus_record.reasons`.
"""

from scheduler.engine.rules.rules import DEFAULT_RULES, Rules

__all__ = ["DEFAULT_RULES", "Rules"]
