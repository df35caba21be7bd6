"""TLS contexts are rebuilt when their inputs change, and kept when rebuilding fails."""

from __future__ import annotations

import ssl

import pytest

from herodotus_serving.tls_contexts import CHECK_INTERVAL_S, TLSContextReloader, build_server_context


class Source:
    """A source of contexts whose input is a word: reading "bad" fails, building from "broken" fails."""

    def __init__(self) -> None:
        self.word, self.now_s, self.reads = "first", 0.0, 0
        self.words: dict[ssl.SSLContext, str] = {}
        self.reported: list[str] = []

    def read(self) -> str:
        self.reads += 1
        if self.word == "bad":
            raise OSError("no such file")
        return self.word

    def build(self, word: str) -> ssl.SSLContext:
        if word == "broken":
            raise ValueError("no certificate")
        context = build_server_context(lambda _: None, "")
        self.words[context] = word
        return context

    def reloader(self) -> TLSContextReloader[str]:
        return TLSContextReloader(self.read, self.build, lambda e: self.reported.append(str(e)), lambda: self.now_s)

    def word_after(self, word: str, reloader: TLSContextReloader[str]) -> str:
        """Set the input, let the interval pass, and return the word from which the current context was built."""
        self.word, self.now_s = word, self.now_s + CHECK_INTERVAL_S
        return self.words[reloader.context()]


def test_rebuilds_after_a_change_and_keeps_the_old_context_on_errors() -> None:
    source = Source()
    reloader = source.reloader()
    words = ["first", "second", "bad", "bad", "broken", "second", "third"]
    assert [source.word_after(word, reloader) for word in words] == [
        "first", "second", "second", "second", "second", "second", "third",
    ]  # fmt: skip
    assert source.reported == ["None", "no such file", "no certificate", "None", "None"], (
        "each failure is reported once"
    )


def test_reads_inputs_once_per_interval() -> None:
    source = Source()
    reloader = source.reloader()
    assert len({reloader.context() for _ in range(100)}) == 1
    assert source.reads == 1


@pytest.mark.parametrize(("word", "error"), [("bad", OSError), ("broken", ValueError)])
def test_errors_of_the_first_context_are_raised(word: str, error: type[Exception]) -> None:
    source = Source()
    source.word = word
    with pytest.raises(error):
        source.reloader()


def test_requires_tls_1_2_and_no_client_certificate() -> None:
    context = build_server_context(lambda _: None, "")
    assert (context.minimum_version, context.verify_mode) == (ssl.TLSVersion.TLSv1_2, ssl.CERT_NONE)
