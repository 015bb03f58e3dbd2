"""The list of mutations is kept current, and what is said of one is true."""

import pytest

from tests.mutations import CAUGHT, ROOT, Mutation, listed, outcome

CODE = "def double(number):\n    return 2 * number\n\n\ndef half(number):\n    return number / 2\n"
TESTS = """
from code_of_mine import double, half
def test_double():
    assert double(3) == 6
def test_half():
    half(4)
def test_end():
    while double(1) == 0:
        pass
"""


@pytest.mark.parametrize("mutation", listed(), ids=lambda mutation: mutation.name)
def test_the_text_of_each_stands_once_in_its_file(mutation):
    assert (ROOT / mutation.file).read_text().count(mutation.text) == 1
    assert mutation.instead != mutation.text


def test_each_has_a_name_of_its_own_and_tests_that_exist():
    mutations = listed()
    assert len({mutation.name for mutation in mutations}) == len(mutations)
    for mutation in mutations:
        assert mutation.tests
        for test in mutation.tests:
            path, name = test.split("::")
            assert f"def {name}(" in (ROOT / path).read_text(), mutation.name


@pytest.mark.processes
@pytest.mark.parametrize(
    ("text", "instead", "test", "said"),
    [
        ("2 * number", "3 * number", "test_double", CAUGHT),
        ("number / 2", "number / 3", "test_half", "SURVIVED"),
        ("4 * number", "3 * number", "test_double", "text not found"),
        ("number", "", "test_double", "text found more than once"),
        ("2 * number", "3 *", "test_double", "its tests did not run: pytest ended with code 4"),
        ("2 * number", "0", "test_end", "its tests had not ended after 1 s"),
    ],
)
def test_what_is_said_of_a_mutation(tmp_path, text, instead, test, said):
    (tmp_path / "code_of_mine.py").write_text(CODE)
    (tmp_path / "test_of_mine.py").write_text(TESTS)
    mutation = Mutation("", "code_of_mine.py", text, instead, [f"test_of_mine.py::{test}"])
    assert outcome(tmp_path, mutation, seconds=1 if test == "test_end" else 60) == said
    assert (tmp_path / "code_of_mine.py").read_text() == CODE
    assert not list(tmp_path.rglob("__pycache__"))
