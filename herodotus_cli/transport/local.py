"""The transport of local mode: answers come from the cluster as it is now, evaluated in this process.

Owns: starting local mode, its notes and progress on stderr, and turning its failures into errors. Does not own: reading
and evaluating (`herodotus_local`, which is imported here alone and only when it is needed).

The package `herodotus_local` is not part of the plugin: it comes with the extra `local`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import HTTPException
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from herodotus_answers.unrecorded import OBSERVE
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.errors import CliError, NoHistoryError, NotEvaluatedError, from_service_error, print_to_stderr
from herodotus_cli.progress import ProgressLine
from herodotus_client import api_paths
from herodotus_client.responses import read_status
from herodotus_record.installation import ForeignSchedulerError, describe_extra_installation, require_own_scheduler

if TYPE_CHECKING:
    from herodotus_answers.simulation_questions import SimulationQuestion, TuningQuestion
    from herodotus_cli.transport.kubectl_proxy import KubectlProxy
    from herodotus_local.pages import LocalPages
    from herodotus_local.service import LocalAnswer, LocalService

Json = dict[str, Any]

_HISTORY = "error: this question needs past decisions, and nothing records them in this cluster"
_RIGHTS_HINT = "local mode needs to list nodes, and pods of all namespaces or of the one in question: -n NAMESPACE"
_LOCAL_HISTORY = "error: this question needs past decisions, and local mode has none"
_LEAVE_OUT_LOCAL = "where a decisions service runs: leave out --local"
_HISTORY_HINTS = (
    "record what your scheduler decides from now on, with a read-only observer:",
    f"  {OBSERVE}",
)


def is_installed() -> bool:
    """Return whether local mode is installed: the engine and the decisions service's answers.

    Raises CliError if another project's package `scheduler` is in the engine's place.
    """
    if find_spec("herodotus_local") is None or find_spec("msgspec") is None:
        return False
    try:
        require_own_scheduler()
    except ForeignSchedulerError as e:
        raise CliError(f"error: {e}") from None
    return True


def describe_installation() -> str:
    """Return the hint for an installation without local mode."""
    return f"to evaluate the cluster from here, without any service: {describe_extra_installation('local')}"


class LocalTransport:
    """Answers the decisions API's requests from the cluster as it is now.

    The cluster is read when the first request comes, with kubectl's credentials; further requests of this command are
    answered from what was read then.
    """

    def __init__(
        self,
        connection: ConnectionSettings,
        open_proxy: Callable[[], KubectlProxy],
        tell: Callable[..., None] = print_to_stderr,
    ) -> None:
        """Prepare without reading the cluster. Raises CliError if local mode is not installed.

        `open_proxy` returns the command's proxy to the API server. `tell` prints lines for the user: how the cluster is
        evaluated, and what an answer lacks.
        """
        if not is_installed():
            raise CliError("error: local mode is not installed", [describe_installation()])
        self._connection, self._open_proxy, self._tell = connection, open_proxy, tell
        self._opened: LocalService | None = None
        self._stack, self._progress = ExitStack(), ProgressLine()

    @property
    def has_opened(self) -> bool:
        """Whether the cluster is being read or was read."""
        return self._opened is not None

    def close(self) -> None:
        """Stop reading and delete the temporary database. A later request reads the cluster again."""
        self._stack.close()
        self._opened = None

    def open_pages(self) -> LocalPages:
        """Return an object that answers the web pages' requests with this transport, which no longer shows progress.

        The object closes this transport when its reading is too old, so that the next request reads the cluster again.
        """
        from herodotus_local.pages import LocalPages

        self._progress = ProgressLine(is_shown=False)
        return LocalPages(self._service, self.close)

    def get(self, path: str) -> Json:
        if path == api_paths.service_version():
            raise CliError("error: local mode uses no decisions service")
        return self._answer(lambda service: service.get(path))

    def post(self, path: str, document: Json) -> Json:
        self._progress.expect(document.get("spec") or {})
        with self._progress.interruptible():
            return self._answer(lambda service: service.post(path, document))

    def stream(self, path: str) -> Generator[Json, None, None]:
        raise self._explain_missing_history()

    def _explain_missing_history(self) -> NoHistoryError:
        """Return the error for a question about the past; with --local there may be a service that has records."""
        if self._connection.local:
            return NoHistoryError(
                _LOCAL_HISTORY, ["where a decisions service runs: leave out --local", *_HISTORY_HINTS]
            )
        return NoHistoryError(_HISTORY, _HISTORY_HINTS)

    def _answer(self, ask: Any) -> Json:
        from herodotus_local.errors import (
            HistoryNeededError,
            NodesForbiddenError,
            NoObjectError,
            ReadError,
            UnusableInputError,
        )

        try:
            response: LocalAnswer = ask(self._service())
        except HistoryNeededError:
            raise self._explain_missing_history() from None
        except NoObjectError as e:
            raise NotEvaluatedError("NotFound", str(e), {"similar": list(e.similar)}) from None
        except ReadError as e:
            reason = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound"}.get(e.code, f"code {e.code}")
            hints = [_RIGHTS_HINT] if e.code == 403 and not isinstance(e, NodesForbiddenError) else []
            raise NotEvaluatedError(reason, e.message, hints=hints) from None
        except (OSError, HTTPException) as e:
            raise CliError(f"error: kubectl proxy did not answer: {e}") from None
        except UnusableInputError as e:
            raise CliError(f"error: {e}") from None
        finally:
            self._progress.clear()
        if response.code >= 400:
            raise from_service_error(read_status(response.document, response.code))
        return response.document

    def _service(self) -> LocalService:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> LocalService:
        stack, proxy = self._stack, self._open_proxy()
        from herodotus_local.cluster_reader import ClusterReader  # while the process starts
        from herodotus_local.configuration import find_configuration

        proxy.wait_for_socket()
        fetch = partial(_fetch, proxy)
        progress = self._progress
        reader = stack.enter_context(ClusterReader(fetch, progress.report))  # reads while the rest is imported
        from herodotus_local.service import LocalService

        choice = find_configuration(fetch, self._connection.scheduler_config, self._connection.kubernetes_version)
        announce = partial(self._tell, choice.header, *choice.notes)
        note = lambda text: self._tell(f"note: {text}")  # noqa: E731
        service = LocalService(reader, choice.configuration, note, progress.report_decided, announce)
        return stack.enter_context(service)


def review_files(paths: Sequence[str], connection: ConnectionSettings, document: Json) -> Json:
    """Answer a ClusterReview from files that describe a cluster, with the configuration and version of the options.

    Raises CliError if local mode is not installed, or if a file or the question is invalid.
    """
    with _evaluating_files(document["spec"]) as progress:
        from herodotus_local.configuration import read_configuration
        from herodotus_local.files import FileReader
        from herodotus_local.service import LocalService

        config = read_configuration(connection.scheduler_config, connection.kubernetes_version)
        local = LocalService(FileReader(paths, _note), config, _note, progress.report_decided)
        with local, progress.interruptible():
            return local.post(api_paths.cluster_reviews(), document).document


def answer_trace_question(question: SimulationQuestion | TuningQuestion) -> Json:
    """Return the document that answers a question about a trace.

    Raises CliError if local mode or an extra that the question needs is not installed, or if the question is invalid.
    """
    from herodotus_answers.simulation_questions import TuningQuestion

    with _evaluating_files(vars(question)) as progress:
        if isinstance(question, TuningQuestion) and find_spec("optuna") is None:
            raise CliError(f"error: simulate tune needs the extra tune: {describe_extra_installation('tune')}")
        from herodotus_local.simulation import answer_question

        return {**answer_question(question, progress.report_decided)}


@contextmanager
def _evaluating_files(spec: Mapping[str, object]) -> Iterator[ProgressLine]:
    """Context manager for a question about files: yields its progress line, and turns failures into CliError."""
    if not is_installed():
        raise CliError("error: local mode is not installed", [describe_installation()])
    from herodotus_local.errors import ReadError, UnusableInputError

    progress = ProgressLine()
    progress.expect(spec)
    try:
        yield progress
    except (ReadError, UnusableInputError) as e:
        raise CliError(f"error: {e}") from None
    finally:
        progress.clear()


def _fetch(proxy: KubectlProxy, path: str) -> bytes:
    """Return the body of the API server's response. Raises ReadError with its message if it refuses."""
    from herodotus_local.errors import ReadError

    code, body = proxy.get(path)
    if code == 200:
        return body
    try:
        message = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        message = body.decode("utf-8", "replace").strip()[:200] or f"HTTP status {code}"
    raise ReadError(code, message)


def _note(text: str) -> None:
    print_to_stderr(f"note: {text}")
