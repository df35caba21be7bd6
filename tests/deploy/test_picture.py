"""The README's picture shows the plugin's output for answers recorded in a demo."""

from __future__ import annotations

import json
import re

from deploy.demo import picture


def test_the_picture_equals_the_recorded_answers() -> None:
    drawn = picture.draw(json.loads(picture.ANSWERS.read_text()))
    assert drawn == picture.PICTURE.read_text(), "make picture draws it anew"


def test_its_source_contains_no_machine_name() -> None:
    answers = json.loads(picture.ANSWERS.read_text())["answers"].values()
    assert [answer for answer in answers if answer != picture.anonymize(answer)] == []


def test_it_loads_no_resources() -> None:
    assert set(re.findall(r"https?://[^\"' )]+", picture.PICTURE.read_text())) == {"http://www.w3.org/2000/svg"}
