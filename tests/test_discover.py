"""Discovery stays inside the repository, runs nothing of it, and says what it left out."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from prelaunch.analysis import git
from prelaunch.analysis.discover import MAX_BYTES, NothingToReview, Skipped, discover

KERNEL = "__global__ void k() {}\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def init(root: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    subprocess.run(["git", "init", "-q", str(root)], check=True)


def test_cuda_by_suffix_and_by_content(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a.cu": KERNEL,
            "b.cuh": "",
            "host.cpp": "void f() { k<<<1, 2>>>(); }",
            "plain.cpp": "int main() {}",
            "dev.h": "__device__ int d();",
            "notes.md": "__global__",
        },
    )
    found = discover([tmp_path])
    assert found.files == ("a.cu", "b.cuh", "dev.h", "host.cpp")
    assert found.skipped == ()
    assert found.root == tmp_path


def test_includes_are_read_but_vendored_code_is_not_reviewed(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "src/a.cu": '#include "util.h"\n#include <lib/lib.cuh>\n' + KERNEL,
            "src/util.h": "inline int u();",
            "third_party/lib/lib.cuh": KERNEL,
            "third_party/lib/other.cu": KERNEL,
            "third_party/lib/text.h": "int x;",
        },
    )
    found = discover([tmp_path])
    assert found.files == ("src/a.cu",)
    assert found.included == ("src/util.h", "third_party/lib/lib.cuh")
    assert found.reviews("src/util.h")
    assert not found.reviews("third_party/lib/lib.cuh")
    reason = "vendored: 2 CUDA files not reviewed (--vendored reviews them)"
    assert found.skipped == (Skipped("third_party/", reason),)
    assert "third_party/lib/other.cu" in discover([tmp_path], vendored=True).files


def test_a_vendored_folder_that_is_asked_for_is_reviewed(tmp_path: Path) -> None:
    init(tmp_path)
    write(tmp_path, {"third_party/lib/lib.cu": KERNEL, "third_party/lib/external/e.cu": KERNEL})
    found = discover([tmp_path / "third_party"])
    assert found.files == ("third_party/lib/lib.cu",)
    assert [item.path for item in found.skipped] == ["third_party/lib/external/"]


def test_a_single_file_brings_its_includes(tmp_path: Path) -> None:
    init(tmp_path)
    write(tmp_path, {"src/a.cu": '#include "../inc/b.cuh"\n', "inc/b.cuh": '#include "c.h"\n', "inc/c.h": "int c;",
                     "src/other.cu": KERNEL})  # fmt: skip
    found = discover([tmp_path / "src" / "a.cu"])
    assert found.root == tmp_path
    assert (found.files, found.included) == (("src/a.cu",), ("inc/b.cuh", "inc/c.h"))


def test_include_cycles_end(tmp_path: Path) -> None:
    write(tmp_path, {"a.cu": '#include "b.h"\n', "b.h": '#include "b.h"\n#include "a.cu"\n'})
    assert discover([tmp_path / "a.cu"]).included == ("b.h",)


def test_what_is_no_text_is_skipped_with_a_reason(tmp_path: Path) -> None:
    write(tmp_path, {"a.cu": KERNEL, "big.cu": " " * (MAX_BYTES + 1)})
    (tmp_path / "object.cu").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "gone.cu").symlink_to("nowhere.cu")
    os.mkfifo(tmp_path / "pipe.cu")
    found = discover([tmp_path])
    assert found.files == ("a.cu",)
    assert {item.path: item.reason for item in found.skipped} == {
        "big.cu": "4.0 MiB, more than the 4 MiB read",
        "gone.cu": "No such file or directory",
        "object.cu": "binary",
        "pipe.cu": "not a regular file",
    }


def test_symlinks_never_lead_out_and_loops_end(tmp_path: Path) -> None:
    write(tmp_path, {"out/secret.cu": KERNEL, "repo/a.cu": '#include "leak.h"\n' + KERNEL})
    repo = tmp_path / "repo"
    (repo / "leak.cu").symlink_to("../out/secret.cu")
    (repo / "leak.h").symlink_to("../out/secret.cu")
    (repo / "loop").symlink_to(".")
    (repo / "self.cu").symlink_to("self.cu")
    found = discover([repo])
    assert found.files == ("a.cu",)
    assert found.included == ()
    assert ("leak.cu", "symbolic link out of the repository") in [(i.path, i.reason) for i in found.skipped]


def test_ignored_files_are_not_read(tmp_path: Path) -> None:
    init(tmp_path)
    write(tmp_path, {".gitignore": "gen/\n", "gen/a.cu": KERNEL, "b.cu": KERNEL, "c d/ü.cu": KERNEL})
    assert discover([tmp_path]).files == ("b.cu", "c d/ü.cu")
    assert discover([tmp_path / "gen"]).files == ("gen/a.cu",), "unless they are what was asked for"


@pytest.mark.parametrize("missing", ["nope", "a.cu/b", "\0"])
def test_bad_paths_are_named(tmp_path: Path, missing: str) -> None:
    write(tmp_path, {"a.cu": KERNEL})
    with pytest.raises(NothingToReview, match=r": (No such file|Not a directory|cannot be resolved|embedded)"):
        discover([tmp_path / missing])


def test_nothing_to_review_says_why(tmp_path: Path) -> None:
    with pytest.raises(NothingToReview, match="no CUDA source found"):
        discover([tmp_path])
    (tmp_path / "a.cu").write_bytes(b"\0")
    with pytest.raises(NothingToReview, match=r"skipped a.cu \(binary\)"):
        discover([tmp_path])


HOSTILE = """[core]
	repositoryformatversion = 0
	bare = false
	fsmonitor = "touch {marker}; false"
	hooksPath = {hooks}
	sshCommand = touch {marker}
	pager = touch {marker}
[diff]
	external = touch {marker}
[filter "evil"]
	clean = touch {marker}
	smudge = touch {marker}
	process = touch {marker}
[alias]
	ls-files = "!touch {marker}"
	rev-parse = "!touch {marker}"
[remote "origin"]
	url = ext::sh -c touch% {marker}
	promisor = true
	partialclonefilter = blob:none
[extensions]
	partialClone = origin
"""


def test_a_hostile_repository_runs_nothing(tmp_path: Path) -> None:
    init(tmp_path)
    marker = tmp_path.parent / f"{tmp_path.name}-ran"
    hooks = tmp_path / "hooks"
    write(tmp_path, {"a.cu": KERNEL, ".gitattributes": "*.cu filter=evil diff=evil\n"})
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        write(hooks, {hook: f"#!/bin/sh\ntouch {marker}\n"})
        (hooks / hook).chmod(0o755)
    config = tmp_path / ".git" / "config"
    subprocess.run(["git", "-C", str(tmp_path), "add", "a.cu"], check=True)
    config.write_text(HOSTILE.format(marker=marker, hooks=hooks).replace("repositoryformatversion = 0",
                                                                         "repositoryformatversion = 1"))  # fmt: skip
    index = (tmp_path / ".git" / "index").read_bytes()
    found = discover([tmp_path])
    assert found.files == ("a.cu",)
    assert not marker.exists(), "a program named by the repository was run"
    assert (tmp_path / ".git" / "index").read_bytes() == index, "reading must not write"


def test_a_work_tree_elsewhere_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"out/secret.cu": KERNEL, "repo/a.cu": KERNEL})
    init(tmp_path / "repo")
    with (tmp_path / "repo" / ".git" / "config").open("a") as config:
        config.write(f"[core]\n\tworktree = {tmp_path / 'out'}\n")
    assert git.toplevel(tmp_path / "repo") is None
    assert discover([tmp_path / "repo"]).files == ("a.cu",)


def test_an_embedded_bare_repository_is_not_obeyed(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "bare")], check=True)
    write(tmp_path / "bare", {"a.cu": KERNEL})
    assert git.toplevel(tmp_path / "bare") is None
    assert discover([tmp_path / "bare"]).files == ("a.cu",)


def test_the_commit_is_known(tmp_path: Path) -> None:
    init(tmp_path)
    write(tmp_path, {"a.cu": KERNEL})
    assert discover([tmp_path]).revision is None
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "-C", str(tmp_path), "add", "."], check=True)
    subprocess.run(["git", "-C", str(tmp_path), *who, "commit", "-qm", "x"], check=True)
    revision = discover([tmp_path]).revision
    assert revision is not None
    assert len(revision) == 40
