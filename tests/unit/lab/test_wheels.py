"""uv takes packages from where pip takes them."""

from __future__ import annotations

from lab.wheels import parse


def test_without_settings_uv_keeps_its_own_index() -> None:
    assert parse("global.cert='/etc/ssl/certs/ca-certificates.crt'\n") == {}


def test_the_environment_goes_before_the_files() -> None:
    assert parse(":env:.index-url='https://a/b'\nglobal.index-url='https://c'\n") == {
        "UV_DEFAULT_INDEX": "https://a/b"
    }


def test_several_further_indexes_are_all_kept() -> None:
    assert parse("global.extra-index-url='\\nhttps://x\\nhttps://y'\n") == {"UV_INDEX": "https://x https://y"}
