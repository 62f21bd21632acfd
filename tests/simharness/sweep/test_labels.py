"""What policies are called in results."""

from makeway.simharness.run.labels import policy_labels


def labels(*policies: str) -> list[str]:
    return list(policy_labels(policies).values())


def test_a_file_is_called_by_its_stem() -> None:
    assert labels("eviction", "/long/path/to/mine.py") == ["eviction", "mine"]


def test_files_of_one_name_have_as_many_folders_as_tell_them_apart() -> None:
    assert labels("/x/a/mine.py", "/x/b/mine.py", "/x/b/other.py") == ["a/mine", "b/mine", "other"]
    assert labels("mine.py", "a/mine.py") == ["mine.py", "a/mine"]


def test_a_file_is_not_called_like_a_policy() -> None:
    assert labels("none", "a/none.py", "eviction.py") == ["none", "a/none", "eviction.py"]
