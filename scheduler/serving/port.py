"""Builds the HTTPS port from its options and connects the parts of this package."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from scheduler import klog
from scheduler.kube.http import ApiServer
from scheduler.serving.access import RequestAuthorizer
from scheduler.serving.certificates import Certificates, ClientAuthorities
from scheduler.serving.options import ServingOptions
from scheduler.serving.routes import Content, StatusRoutes
from scheduler.serving.server import StatusServer


def serve(options: ServingOptions, api: ApiServer, content: Content) -> Callable[[], None]:
    """Serve the HTTPS port in threads, and return the function that stops it. Serve nothing if the port number is 0.

    Raise ListenError or CertificateError if the port or its certificate cannot be used.
    """
    with ExitStack() as closing:
        if options.port:
            authorities = ClientAuthorities(api, options.certificates.client_ca_file)
            certificates = Certificates(options.certificates, options.host, authorities, time.monotonic)
            routes = StatusRoutes(RequestAuthorizer(api, options.always_allowed), content)
            server = StatusServer((options.host, options.port), certificates.context, routes)
            authorities.start()
            closing.callback(authorities.close)
            server.start()
            closing.callback(server.close)
            klog.info(0, "Serving securely", address=options.host, port=server.port)
        return closing.pop_all().close
