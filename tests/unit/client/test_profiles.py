"""`migration-client configure`, and `--profile`."""

from pathlib import Path

from click.testing import CliRunner, Result

from migration_service_client.command import main

_KEY = "ami_0123456789_" + "k" * 40


def _run(folder: Path, *arguments: str, given: str = "", **environment: str) -> Result:
    return CliRunner().invoke(
        main, arguments, input=given, env={"XDG_CONFIG_HOME": str(folder), **environment}
    )


def test_profiles_are_kept_where_only_their_owner_reads_them(tmp_path: Path) -> None:
    for name, url in (("default", "http://127.0.0.1:1"), ("test", "http://127.0.0.1:2")):
        kept = _run(tmp_path, "configure", name, "--url", url, given=f"{_KEY}\n")
        assert kept.exit_code == 0, kept.output
        assert _KEY not in kept.output
    file = tmp_path / "migration-client" / "profiles.json"
    assert file.stat().st_mode & 0o777 == 0o600
    listed = _run(tmp_path, "configure").stdout
    assert "test\thttp://127.0.0.1:2" in listed
    assert _KEY not in listed
    show = ("api-keys", "show", "--patience", "0")
    for arguments, environment, port in (
        (show, {}, 1),
        (("--profile", "test", *show), {"MIGRATION_CLIENT_URL": "http://127.0.0.1:3"}, 2),
        (show, {"MIGRATION_CLIENT_PROFILE": "test"}, 2),
        (show, {"MIGRATION_CLIENT_URL": "http://127.0.0.1:3", "MIGRATION_CLIENT_KEY": "k"}, 3),
    ):
        tried = _run(tmp_path, *arguments, **environment)
        assert (tried.exit_code, f"127.0.0.1:{port} " in tried.stderr) == (2, True), tried.stderr
    file.chmod(0o640)
    assert "Others can read the keys in " in _run(tmp_path, *show).stderr
    file.chmod(0o600)
    assert _run(tmp_path, "configure", "test", "--remove").exit_code == 0
    assert (
        "There is no profile 'test'. There are: default." in _run(tmp_path, "--profile", "test", *show).stderr
    )
    file.write_text("[1]")
    assert "is not a file of profiles" in _run(tmp_path, *show).stderr


def test_a_key_is_not_sent_to_another_address_than_its_own(tmp_path: Path) -> None:
    _run(tmp_path, "configure", "default", "--url", "http://127.0.0.1:1", given=_KEY)
    for arguments, says in (
        (("--profile", "default", "suppliers", "list", "--url", "http://x"), "Leave out --url."),
        (("suppliers", "list", "--url", "http://127.0.0.1:1"), "No API key is in the variable"),
        (("configure", "x", "--url", "ftp://x"), "begins with https://"),
        (("configure", "x", "--url", "http://x"), "Expected an API key"),
        (("configure", "x"), "Expected --url or --remove"),
    ):
        result = _run(tmp_path, *arguments)
        assert (result.exit_code, says in result.stderr) == (2, True), result.output
