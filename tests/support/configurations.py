"""Files of KubeSchedulerConfiguration."""

import pytest

from scheduler.config import ConfigError, parse_config

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def config_error(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse_config(text)
    return str(raised.value)


PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: herodotus-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
"""
