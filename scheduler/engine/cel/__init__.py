"""CEL expressions that select devices, as the API server compiles them and kube-scheduler evaluates them.

```python
selector = compile_selector('device.attributes["gpu.example.com"].model == "A100"')  # CelError: not a selector
device = CelDevice("gpu.example.com", {"model": {"string": "A100"}}, {"memory": {"value": "40Gi"}})
selector.matches(device)  # CelRuntimeError: the evaluation fails
```
"""

from scheduler.engine.cel.device import CelDevice
from scheduler.engine.cel.errors import CelError, CelRuntimeError
from scheduler.engine.cel.selector import Selector, compile_selector

__all__ = ["CelDevice", "CelError", "CelRuntimeError", "Selector", "compile_selector"]
