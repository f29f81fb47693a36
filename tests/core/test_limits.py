"""A machine's limits end a command in one sentence, which says what is full and that finished steps are kept."""

import errno
import os
import resource
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from forked import ended, start
from headcount.core import files
from headcount.core.errors import HeadcountError
from headcount.core.files import fill_folder, writable_folder, write_file, write_folder
from headcount.core.limits import limit_in_words, telling

NOBODY = 65534


def no_room(*args, **kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def told(error):
    words = str(error.value)
    assert len(words) <= 300
    assert "\n" not in words
    return words


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO])
def test_whatever_the_disk_refuses_is_one_sentence(tmp_path, number, monkeypatch):
    def fails(*args):
        raise OSError(number, os.strerror(number))

    path = tmp_path / "file"
    path.write_text("before")
    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(HeadcountError, match=r"file cannot be written: .* Finished steps are kept\.") as error:
        write_file(path, "after")
    told(error)
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_what_libraries_say_of_a_full_disk_is_understood(tmp_path):
    words = "Error while serializing: I/O error: No space left on device (os error 28)"
    with pytest.raises(HeadcountError, match="the disk is full"), telling(tmp_path):
        raise SafetensorError(words)
    with pytest.raises(SafetensorError, match="other"), telling(tmp_path):
        raise SafetensorError("other")


def test_a_folder_that_was_not_finished_leaves_nothing(tmp_path, monkeypatch):
    for write in (lambda: write_folder(tmp_path / "a", Path.is_dir), lambda: fill_folder(tmp_path / "b", "first")):
        with pytest.raises(HeadcountError, match="the disk is full"), write() as unfinished:
            (unfinished / "part").write_text("part")
            no_room()
    assert [path.name for path in tmp_path.rglob("*")] == ["b"]


def test_space_is_looked_at_before_work_begins(tmp_path, monkeypatch):
    with pytest.raises(HeadcountError, match=r"MB left, and this may need 1,000,000,000,000 MB") as error:
        writable_folder(tmp_path, space=10**18)
    told(error)
    monkeypatch.setattr(files.tempfile, "TemporaryFile", no_room)
    with pytest.raises(HeadcountError, match="the disk is full"):
        writable_folder(tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become nobody")
def test_folders_of_others_are_refused_before_work_begins(tmp_path):
    """As nobody, in a process of its own: root may write anywhere."""
    place = tmp_path / "theirs"
    place.mkdir(mode=0o755)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == 0 and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setuid(NOBODY)
            for folder in (place, place / "below"):
                try:
                    writable_folder(folder)
                except HeadcountError as error:
                    code = 0 if "you have no right to" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_memory_that_runs_out_is_one_sentence():
    for error in (
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        torch.OutOfMemoryError("CUDA out of memory."),
    ):
        assert limit_in_words(error).startswith("The machine has no memory left")
        assert "Finished steps are kept" in limit_in_words(error)
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert limit_in_words(caught.value).startswith("The machine has no memory left")
    assert limit_in_words(ValueError("other")) == ""
    assert limit_in_words(KeyError("other")) == ""


def test_a_command_that_cannot_print_says_so(headcount, monkeypatch, tmp_path):
    monkeypatch.setattr("headcount.cli.show.print_rows", no_room)
    code, _, err = headcount("methods")
    assert code == 2
    assert "The output cannot be written: the disk is full. Finished steps are kept." in err
    said = tmp_path / "said"
    process = start("methods", cache=tmp_path, said="/dev/full", errors=said)
    assert ended(process) == 2
    assert "cannot be written: the disk is full" in said.read_text()
    assert "Traceback" not in said.read_text()


def test_a_file_size_limit_ends_a_study_in_a_sentence_and_keeps_its_steps(folder, tmp_path):
    """In the place of a full disk, where none can be made."""
    said, cache, out = tmp_path / "said", tmp_path / "cache", tmp_path / "out"
    asked = (
        "run",
        "heads-kept",
        "--model",
        folder,
        "--task",
        "ioi",
        "-n",
        8,
        "--method",
        "one-pass",
        "--order",
        "absolute",
        "--repeats",
        1,
    )
    asked = (*asked, "--out", out)
    size = 6000  # scores fit into it, a figure does not
    process = start(*asked, cache=cache, said=said, limits={resource.RLIMIT_FSIZE: (size, size)})
    assert ended(process) == 2, said.read_text()
    words = said.read_text().strip().splitlines()[-1]
    assert "may not grow so large" in words
    assert "Finished steps are kept" in words
    assert "Traceback" not in said.read_text()
    assert not list(tmp_path.rglob(".unfinished*"))
    assert not out.exists()
    assert list((cache / "steps").iterdir())


def test_what_a_killed_writer_left_beside_a_file_goes_with_the_next(tmp_path):
    from headcount.core.files import UNFINISHED, write_file

    (tmp_path / f"{UNFINISHED}0123456789abcdef").write_text("half")
    write_file(tmp_path / "report.html", "whole")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
