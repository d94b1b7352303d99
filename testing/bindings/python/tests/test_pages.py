"""The listings of the README and of the guide, and the tables of the protocol."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Set, get_args

import pytest

from zk_test_server import Operation, _connection, _probe, _rules, _server, errors

pytest_plugins = ["pytester"]

PACKAGE = Path(__file__).resolve().parent.parent
GUIDE = PACKAGE.parents[2] / "docs" / "book" / "src" / "testing"
PROTOCOL = PACKAGE.parents[1] / "standalone" / "PROTOCOL.md"
PAGES = [PACKAGE / "README.md", GUIDE / "python.md"]


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


def section(heading: str) -> str:
    """Returns a section of the page of the protocol."""
    page = PROTOCOL.read_text()
    return page.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def first_cells(text: str) -> Set[str]:
    """Returns the code in the first cells of tables."""
    cells = re.findall(r"^\| (`.*?) \|", text, re.M)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def sources() -> str:
    return "".join(inspect.getsource(part) for part in (_connection, _probe, _rules, _server))


def test_every_call_of_the_protocol_is_made() -> None:
    calls = first_cells(section("Calls"))
    assert {"hello", "add_rule", "reset"} <= calls
    assert {call for call in calls if f'"{call}"' not in sources()} == set()


def test_every_operation_of_the_protocol_has_a_type() -> None:
    row = re.search(r"^\| `operation` \|(.*)$", section("Rules"), re.M)
    assert row is not None
    assert set(get_args(Operation)) == set(re.findall(r"`([^`]+)`", row[1]))


def test_every_error_code_of_the_protocol_has_an_exception() -> None:
    codes = {name for name in first_cells(section("Messages")) if re.fullmatch("[a-z_]+", name)}
    assert codes == set(errors._BY_CODE)


def test_every_condition_of_the_protocol_is_used() -> None:
    conditions = set(re.findall(r'`\{"(\w+)":', section("Conditions")))
    assert len(conditions) == 10
    assert {name for name in conditions if f'"{name}"' not in sources()} == set()
