"""The ResourceQuota controller: writes to the status what pods use. Does not own: amounts and refusals (`quotas`)."""

from __future__ import annotations

from herodotus_sim.controllers.access import ControllerClient
from herodotus_sim.kinds import RESOURCE_QUOTA
from herodotus_sim.quotas import format_amount, measure_use, read_limits
from herodotus_sim.storage import StoredObject


class ResourceQuotaController:
    """The controller of ResourceQuotas."""

    def __init__(self, access: ControllerClient) -> None:
        self._access = access

    def reconcile(self, quota: StoredObject) -> float:
        """Write the limits and the used amounts to the status of a quota.

        Returns 0, because no later check is needed: every change of a pod enqueues the quota again.
        """
        hard, used = read_limits(quota.obj), measure_use(self._access.store, quota.key[0])
        written = {
            "hard": {name: format_amount(name, amount) for name, amount in hard.items()},
            "used": {name: format_amount(name, used[name]) for name in hard},
        }
        self._access.update_status(RESOURCE_QUOTA, quota, written)
        return 0.0
