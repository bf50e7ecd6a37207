"""What is logged of an error: all of it, or with keys its kinds and places alone."""

from store import logs


def raised():
    try:
        try:
            raise ValueError("SENTINEL")
        except ValueError as error:
            raise RuntimeError(f"because of {error}") from error
    except RuntimeError as error:
        return error


def test_without_keys_an_error_is_logged_with_its_words(monkeypatch):
    monkeypatch.delenv("DAYFLOW_ENCRYPTION_KEYS", raising=False)

    assert "RuntimeError: because of SENTINEL" in logs.told(raised())
    assert logs.line(raised()) == "RuntimeError: because of SENTINEL"


def test_with_keys_an_error_is_logged_by_kind_and_place(monkeypatch):
    monkeypatch.setenv("DAYFLOW_ENCRYPTION_KEYS", "k1:…")

    told = logs.told(raised())

    assert "SENTINEL" not in told.replace('raise ValueError("SENTINEL")', "")
    assert "in raised" in told
    assert "builtins.RuntimeError" in told
    assert "builtins.ValueError" in told
    assert logs.line(raised()) == "RuntimeError"
