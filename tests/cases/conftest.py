"""Assertions of the helpers explain themselves as those of the tests do."""

import pytest

pytest.register_assert_rewrite("tests.acceptance.house")
