"""The tuning constants as one frozen value."""

from __future__ import annotations

import pickle
import threading

import pytest

from grain._policy import DEFAULT_POLICY, Policy, current_policy, use_policy


def test_a_policy_is_frozen():
    with pytest.raises(AttributeError, match="frozen"):
        DEFAULT_POLICY.max_chunk = 3


def test_an_unknown_field_is_refused():
    with pytest.raises(TypeError, match="max_chunks"):
        Policy(max_chunks=3)


def test_replace_changes_only_the_fields_given():
    policy = Policy(max_chunk=3).replace(chunk_bytes=5)
    assert (policy.max_chunk, policy.chunk_bytes) == (3, 5)
    assert policy.values() == {**DEFAULT_POLICY.values(), "max_chunk": 3, "chunk_bytes": 5}
    assert DEFAULT_POLICY.max_chunk == 1024


def test_policies_with_equal_fields_are_equal():
    assert Policy(max_chunk=1024) == DEFAULT_POLICY
    assert hash(Policy(max_chunk=1024)) == hash(DEFAULT_POLICY)
    assert Policy(max_chunk=3) != DEFAULT_POLICY


def test_a_policy_survives_pickling():
    policy = Policy(max_chunk=3)
    assert pickle.loads(pickle.dumps(policy)) == policy


def test_use_policy_holds_in_all_threads_until_the_block_ends():
    seen = []
    with use_policy(max_chunk=3) as policy:
        thread = threading.Thread(target=lambda: seen.append(current_policy()))
        thread.start()
        thread.join()
    assert seen == [policy]
    assert current_policy() is DEFAULT_POLICY
