"""New images are rolled out and rolled back, as docs/upgrade.md says, while pods are created.

No version is released, so the new image is this one under another tag; `make upgrade` runs two versions' processes.
"""

from __future__ import annotations

from herodotus_record.version import __version__
from tests.node.images import image_name
from tests.node.installation import COMPONENTS, NAMESPACE, Installation
from tests.node.load import LoadGenerator

NEXT = f"{__version__}-next"


def test_every_pod_is_bound_and_recorded_during_an_upgrade_and_a_rollback(
    installation: Installation, generator: LoadGenerator
) -> None:
    for component in COMPONENTS:
        installation.machine.tag_image(image_name(component), image_name(component, NEXT))
    with generator.run("upgrade") as load:
        for version in (NEXT, __version__):
            for component in reversed(COMPONENTS):  # the service first
                image = image_name(component, version)
                installation.machine.kubectl(
                    *("-n", NAMESPACE, "set", "image", f"deployment/herodotus-{component}", f"*={image}")
                )
                installation.roll_out(component)
                took_s = generator.measure_binding("upgrade", load)
                print(f"{component} {version}: next binding after {took_s:.1f} s")
                (pod,) = installation.pods(component)
                assert {each["image"] for each in pod["spec"]["containers"]} == {image}
    generator.check_nothing_is_lost("upgrade", load)
