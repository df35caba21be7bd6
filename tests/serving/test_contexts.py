"""A context is made anew when what it is made of changes, and an old one is better than none."""

from __future__ import annotations

import ssl

import pytest

from herodotus_serving.contexts import LOOK_EVERY_S, Renewed, server_context


class Source:
    """What a context is made of: a word; "bad" cannot be looked at, "broken" cannot be made."""

    def __init__(self) -> None:
        self.word, self.now_s, self.looked = "first", 0.0, 0
        self.made: dict[ssl.SSLContext, str] = {}
        self.told: list[str] = []

    def look(self) -> str:
        self.looked += 1
        if self.word == "bad":
            raise OSError("no such file")
        return self.word

    def make(self, word: str) -> ssl.SSLContext:
        if word == "broken":
            raise ValueError("no certificate")
        context = server_context(lambda _: None, "")
        self.made[context] = word
        return context

    def renewed(self) -> Renewed[str]:
        return Renewed(self.look, self.make, lambda e: self.told.append(str(e)), lambda: self.now_s)

    def after(self, word: str, renewed: Renewed[str]) -> str:
        """Of what the context is, a second after the source says `word`."""
        self.word, self.now_s = word, self.now_s + LOOK_EVERY_S
        return self.made[renewed.context()]


def test_a_change_makes_another_context_and_what_cannot_be_used_leaves_the_old_one() -> None:
    source = Source()
    renewed = source.renewed()
    words = ["first", "second", "bad", "bad", "broken", "second", "third"]
    assert [source.after(word, renewed) for word in words] == [
        "first", "second", "second", "second", "second", "second", "third",
    ]  # fmt: skip
    assert source.told == ["None", "no such file", "no certificate", "None", "None"], "each failure once"


def test_it_looks_once_a_second_however_many_connections_come() -> None:
    source = Source()
    renewed = source.renewed()
    assert len({renewed.context() for _ in range(100)}) == 1
    assert source.looked == 1


@pytest.mark.parametrize(("word", "error"), [("bad", OSError), ("broken", ValueError)])
def test_what_cannot_be_used_at_the_start_is_the_callers_error(word: str, error: type[Exception]) -> None:
    source = Source()
    source.word = word
    with pytest.raises(error):
        source.renewed()


def test_no_client_must_show_a_certificate_and_old_tls_is_not_spoken() -> None:
    context = server_context(lambda _: None, "")
    assert (context.minimum_version, context.verify_mode) == (ssl.TLSVersion.TLSv1_2, ssl.CERT_NONE)
