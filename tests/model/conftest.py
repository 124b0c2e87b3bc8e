"""What differs between the model and the database is shown."""

import pytest

pytest.register_assert_rewrite("tests.model.machine")
