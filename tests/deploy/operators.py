"""The fields of the Prometheus operator's and cert-manager's kinds, as far as the chart has objects of them.

They suffice for an API server, or a validator, to report an unknown field.
"""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
YES_OR_NO: Final[Schema] = {"type": "boolean"}
WORDS: Final[Schema] = {"type": "object", "additionalProperties": TEXT}


def fields(*required: str, **known: Schema) -> Schema:
    return {"type": "object", "properties": known} | ({"required": list(required)} if required else {})


def many(item: Schema) -> Schema:
    return {"type": "array", "items": item}


_ISSUER_REF = fields("name", name=TEXT, kind=TEXT, group=TEXT)
_KEY = fields(
    algorithm=TEXT | {"enum": ["RSA", "ECDSA", "Ed25519"]},
    size=NUMBER,
    rotationPolicy=TEXT | {"enum": ["Never", "Always"]},
)
_TLS = fields(insecureSkipVerify=YES_OR_NO, serverName=TEXT, ca=fields(secret=fields("key", name=TEXT, key=TEXT)))
_SCRAPED = fields(port=TEXT, path=TEXT, scheme=TEXT, interval=TEXT, tlsConfig=_TLS, bearerTokenFile=TEXT)
_RULE = fields("expr", alert=TEXT, expr=TEXT, labels=WORDS, annotations=WORDS, **{"for": TEXT})

# By group (each in version v1) and kind: what `spec` is.
KINDS: Final[dict[str, dict[str, Schema]]] = {
    "cert-manager.io": {
        "Issuer": fields(selfSigned=fields(), ca=fields("secretName", secretName=TEXT)),
        "Certificate": fields(
            "secretName",
            "issuerRef",
            secretName=TEXT,
            issuerRef=_ISSUER_REF,
            isCA=YES_OR_NO,
            commonName=TEXT,
            dnsNames=many(TEXT),
            duration=TEXT,
            privateKey=_KEY,
        ),
    },
    "monitoring.coreos.com": {
        "ServiceMonitor": fields("selector", "endpoints", selector=fields(matchLabels=WORDS), endpoints=many(_SCRAPED)),
        "PrometheusRule": fields(groups=many(fields("name", name=TEXT, rules=many(_RULE)))),
    },
}


def definition(group: str, kind: str) -> Schema:
    """Return the CustomResourceDefinition of a kind."""
    schema = fields(spec=KINDS[group][kind], apiVersion=TEXT, kind=TEXT, metadata={"type": "object"})
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": f"{kind.lower()}s"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def closed(schema: Schema) -> Schema:
    """Return the schema with unknown fields forbidden."""
    found = dict(schema)
    if "properties" in found:
        found["properties"] = {name: closed(inner) for name, inner in found["properties"].items()}
    if "items" in found:
        found["items"] = closed(found["items"])
    if found.get("type") == "object" and "additionalProperties" not in found:
        found["additionalProperties"] = False
    return found
