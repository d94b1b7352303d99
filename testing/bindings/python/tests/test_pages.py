"""The listings of the README and of the guide run as tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PACKAGE = Path(__file__).resolve().parent.parent
PAGES = [
    PACKAGE / "README.md",
    PACKAGE.parents[2] / "docs" / "book" / "src" / "testing" / "python.md",
]


def listings(page: Path) -> "list[str]":
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_listings_of_a_page_pass(pytester: pytest.Pytester, page: Path) -> None:
    found = listings(page)
    tests = sum(len(re.findall(r"^ *def test_", listing, re.M)) for listing in found)
    assert tests > 0
    for number, listing in enumerate(found):
        pytester.makepyfile(**{f"test_listing_{number}": listing})
    pytester.runpytest_subprocess("-W", "error").assert_outcomes(passed=tests)
