"""The right of every route, written a second time: a wrong declaration must not pass because tests derive from it."""

from herodotus_endpoint.routing import Access, RequiredRight, Route, list_routes
from tests.endpoint.service import Service

# Operation -> verb, resource, and the path part or parameter with the object's name; "if X": with that parameter.
RIGHTS = {
    "listDecisions": "list decisions, if watch: watch decisions",
    "listAllDecisions": "list decisions, if watch: watch decisions",
    "getDecision": "get decisions/name",
    "listNodeHistories": "list nodehistories",
    "getNodeHistory": "get nodehistories/node",
    "getPodExplanation": "get podexplanations/pod",
    "getPodHistory": "get podhistories/pod",
    "getPodComparison": "list decisions",  # the other pod may be any of the namespace
    "getNodeComparison": "get nodecomparisons/pod",
    "listClusters": "list clusters",  # and of each other cluster that it shows: get clusters
    "listIncarnations": "list incarnations",
    "listPendingPods": "list pendingpods",
    "listAllPendingPods": "list pendingpods",
    "listWorkloadPlacements": "list workloadplacements",
    "listAllWorkloadPlacements": "list workloadplacements",
    "getWorkloadPlacement": "get workloadplacements/workload",
    "getPodGroupPlacement": "get podgroupplacements/podgroup",
    "listBalances": "list balances, if labelSelector: get decisions",  # a selector may select a single pod
    "listPreemptions": "list preemptions",
    "listAllPreemptions": "list preemptions",
    "listAgreements": "list agreements",
    "listAllAgreements": "list agreements",
    "createPlacementReview": "create placementreviews",
    "createClusterReview": "create clusterreviews",
    "legacyPod": "get podexplanations/name",
    "legacyNode": "get nodehistories/name",
    "metrics": "get the URL",
    **dict.fromkeys(("ingest", "takeReview", "answerReview", "listOpenDecisions"), "authenticated sender"),
    **dict.fromkeys(("groups", "group", "resources", "openapiIndex", "openapiGroup", "openapi"), "none"),
    **dict.fromkeys(("ui", "home", "page", "index"), "none"),  # empty shells and redirects
    **dict.fromkeys(("livez", "readyz", "version", "listServiceVersions"), "none"),
}
ACCESS = {Access.DISCLOSES_NOTHING: "none", Access.SENDER: "authenticated sender", Access.URL: "get the URL"}


def describe(right: RequiredRight) -> str:
    name = f"/{right.name}" if right.name else ""
    instead = f", if {right.instead[0].name}: {describe(right.instead[1])}" if right.instead else ""
    return f"{right.verb} {right.resource.plural}{name}{instead}"


def right_of(route: Route) -> str:
    if isinstance(route.right, RequiredRight):
        return describe(route.right)
    assert route.right is not None
    return ACCESS[route.right]


def test_every_route_requires_the_right_in_the_table(service: Service) -> None:
    routes = list_routes(service.client.application)
    assert {route.operation_id: right_of(route) for route in routes} == RIGHTS
