"""One thread of linear algebra inside of a block, and what it was before behind the last."""

from threadpoolctl import threadpool_limits

from nightfit.numerics.linear_algebra import _libraries, one_thread


def threads() -> list[int]:
    return [library["num_threads"] for library in _libraries().info() if library["user_api"] == "blas"]


def test_blocks_that_overlap_keep_one_thread_until_the_last_is_left_and_then_there_are_as_many_as_before() -> None:
    with threadpool_limits(2, "blas"):
        before = threads()
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        assert set(threads()) == {1}
        first.__exit__(None, None, None)
        assert set(threads()) == {1}
        second.__exit__(None, None, None)
        assert threads() == before
        assert set(before) == {2}


def test_a_block_that_fails_lifts_the_limit() -> None:
    with threadpool_limits(2, "blas"):
        try:
            with one_thread():
                raise KeyError
        except KeyError:
            assert set(threads()) == {2}
