"""The error of requests to the API server, for modules that handle it and send no request themselves."""


class KubeError(Exception):
    """The API server refused a request or cannot be reached; the message is one line.

    `code` is the HTTP status, or 0 if there was no usable response.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code
