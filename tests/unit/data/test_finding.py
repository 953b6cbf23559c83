"""Which files inputs stand for, in which order, and what is said if there are none."""

import os
import sys
from pathlib import Path

import pytest

from clozeworks.data.files.discovery import InputFiles, find_files
from clozeworks.data.files.texts import text_rows
from clozeworks.errors import MissingExtra

pytestmark = pytest.mark.usefixtures("folder")

KNOWN = (
    "known: .csv, .jsonl, .parquet, .tsv, .txt, all but .parquet also with .gz, .bz2, .xz, .zst; "
)


@pytest.fixture
def touch():
    """Makes empty files, with their folders."""

    def make(*names):
        for name in names:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).touch()

    return make


def names(*inputs):
    return [path.as_posix() for path in find_files(inputs).files]


class TestFolders:
    def test_all_files_of_a_known_kind(self, touch):
        wanted = [
            *("data/a.csv", "data/a.jsonl.zst", "data/a.parquet", "data/b.tsv.xz", "data/c.TXT.GZ"),
            *("data/deep/er/d.txt", "data/e.jsonl.bz2"),
        ]
        ignored = ["data/a.parquet.gz", "data/deep/notes.md", "data/f.gz", "data/noname"]
        touch(*wanted, *ignored)
        assert find_files(["data"]) == InputFiles(
            [Path(name) for name in wanted], [Path(name) for name in ignored]
        )

    def test_hidden_ones_are_left_out(self, touch):
        touch("data/a.txt", "data/.b.txt", "data/.git/c.txt", "data/.cache/deep/d.txt")
        assert find_files(["data"]) == InputFiles([Path("data/a.txt")], [])

    def test_the_order_is_that_of_bytes(self, touch):
        touch(
            "data/b.txt", "data/B.txt", "data/é.txt", "data/a/z.txt", "data/a-1.txt", "data/10.txt"
        )
        expected = ["data/10.txt", "data/B.txt", "data/a-1.txt", "data/a/z.txt", "data/b.txt"]
        assert names("data") == [*expected, "data/é.txt"]
        assert names("data/é.txt", *reversed(expected)) == [*expected, "data/é.txt"]

    @pytest.mark.skipif(sys.platform == "win32", reason="names are bytes only elsewhere")
    def test_names_that_are_no_text(self, touch):
        Path("data").mkdir()
        try:
            Path(os.fsdecode(b"data/\xff.txt")).touch()
        except OSError:
            pytest.skip("this disk takes only names that are text")
        touch("data/a.txt", "data/中.txt")
        assert [os.fsencode(path) for path in find_files(["data"]).files] == [
            *(b"data/a.txt", "data/中.txt".encode(), b"data/\xff.txt")
        ]

    def test_links_are_followed_once(self, touch):
        touch("data/a.txt", "elsewhere/b.txt", "elsewhere/c.txt")
        Path("data/linked").symlink_to(Path("elsewhere").resolve())
        Path("data/again").symlink_to(Path("data").resolve())
        Path("data/b.txt").symlink_to(Path("elsewhere/b.txt").resolve())
        assert names("data") == ["data/a.txt", "data/b.txt", "data/linked/c.txt"]

    @pytest.mark.parametrize("backwards", [False, True])
    def test_two_links_to_a_folder(self, touch, monkeypatch, backwards):
        touch("elsewhere/a.txt")
        for name in ("data/x", "data/y"):
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).symlink_to(Path("elsewhere").resolve())
        walk = os.walk

        def ordered(*arguments, **options):
            for place, folders, files in walk(*arguments, **options):
                folders.sort(reverse=backwards)
                yield place, folders, files

        monkeypatch.setattr(os, "walk", ordered)
        assert names("data") == ["data/x/a.txt"]
        assert names("data/y/a.txt", "data/x/a.txt") == ["data/x/a.txt"]

    def test_none_of_a_known_kind(self, touch, complaint):
        touch("data/a.md")
        Path("empty").mkdir()
        for name in ("data", "empty"):
            assert complaint(find_files, [name]) == (
                f"{name} holds no file of a known kind; {KNOWN}"
                "name a folder with such files, or rename them."
            )

    def test_those_of_a_tokenizer(self, touch, complaint):
        others = ["data/bert/tokenizer.json", "data/bert/vocab.txt", "data/gpt/merges.txt"]
        touch("data/a.txt", "data/bert/b.txt", *others)
        texts = [Path("data/a.txt"), Path("data/bert/b.txt")]
        assert find_files(["data"]) == InputFiles(texts, [Path(name) for name in others])
        assert names("data/**/*.txt") == ["data/a.txt", "data/bert/b.txt"]
        assert find_files(["data", others[1]]) == InputFiles(
            [*texts, Path(others[1])], [Path(others[0]), Path(others[2])]
        )
        assert complaint(find_files, ["data/gpt"]) == (
            f"data/gpt holds no file of a known kind; {KNOWN}name a folder with such files, or "
            "rename them. data/gpt/merges.txt is a tokenizer's; name it to read it."
        )

    @pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="this user may list anything")
    def test_one_that_may_not_be_listed(self, touch, complaint):
        touch("data/a.txt", "data/closed/b.txt")
        Path("data/closed").chmod(0)
        try:
            assert complaint(find_files, ["data"]) == (
                "data/closed could not be listed: Permission denied; change its permissions, "
                "or name the files."
            )
        finally:
            Path("data/closed").chmod(0o700)


class TestFiles:
    def test_one_named_twice_counts_once(self, touch):
        touch("data/a.txt")
        assert names("data/a.txt", "./data/a.txt", "data", "data/*") == ["data/a.txt"]
        assert len(names("data/a.txt", Path("data/a.txt").resolve())) == 1

    def test_json_files_must_be_named(self, touch):
        touch("data/a.json", "data/b.jsonl")
        assert names("data") == ["data/b.jsonl"]
        assert names("data", "data/a.json") == ["data/a.json", "data/b.jsonl"]

    def test_hidden_ones_may_be_named(self, touch):
        touch(".a.txt")
        assert names(".a.txt") == [".a.txt"]

    @pytest.mark.parametrize(
        ("name", "has"),
        [
            ("a.md", "has the suffix '.md'"),
            ("a.tar.gz", "has the suffix '.tar.gz'"),
            ("a.parquet.gz", "has the suffix '.parquet.gz'"),
            ("a", "has no suffix"),
        ],
    )
    def test_one_of_an_unknown_kind(self, touch, complaint, name, has):
        touch(name)
        known = KNOWN.replace(".csv,", ".csv, .json,")
        expected = f"{name} {has}; {known}say what it is with --format, such as --format txt, or "
        expected += "convert it."
        assert complaint(find_files, [name]) == expected
        assert complaint(text_rows, Path(name)) == expected

    def test_one_that_is_missing(self, touch, complaint):
        touch("data/reviews.jsonl")
        expected = (
            "data/review.jsonl does not exist; check the name and the folder. "
            "Did you mean 'data/reviews.jsonl'?"
        )
        assert complaint(find_files, ["data/review.jsonl"]) == expected
        assert complaint(text_rows, Path("data/review.md")).startswith("data/review.md does not")

    def test_a_name_that_is_too_long(self, complaint):
        name = "a" * 300
        assert complaint(find_files, [name]) == (
            f"{name} could not be read: File name too long; check the name and the permissions."
        )

    def test_no_inputs(self, complaint):
        assert complaint(find_files, []) == (
            "there are no inputs; name at least one file, folder or pattern."
        )


class TestPatterns:
    def test_files(self, touch):
        touch("data/a.txt", "data/b.txt", "data/c.csv", "data/.d.txt", "data/deep/e.txt")
        assert names("data/*.txt") == ["data/a.txt", "data/b.txt"]
        assert names("data/[bc].*") == ["data/b.txt", "data/c.csv"]
        assert names("data/**/*.txt") == ["data/a.txt", "data/b.txt", "data/deep/e.txt"]
        assert names(Path("data/**/e.txt").absolute()) == [
            Path("data/deep/e.txt").absolute().as_posix()
        ]

    def test_folders(self, touch):
        touch("data/2020/a.txt", "data/2021/b.txt", "data/other/c.txt")
        assert names("data/202*") == ["data/2020/a.txt", "data/2021/b.txt"]

    def test_other_kinds_are_left_out(self, touch):
        touch("data/a.txt", "data/a.md")
        assert find_files(["data/*"]) == InputFiles([Path("data/a.txt")], [Path("data/a.md")])

    def test_a_name_that_looks_like_a_pattern(self, touch):
        touch("data/a[1].txt", "data/a1.txt")
        assert names("data/a[1].txt") == ["data/a[1].txt"]

    def test_no_match(self, touch, complaint):
        touch("data/reviews.jsonl")
        assert complaint(find_files, ["data/review*.json"]) == (
            "data/review*.json matches no file; a pattern must match at least one; check it. "
            "The nearest name is 'data/reviews.jsonl'."
        )
        assert complaint(find_files, ["dat/*.json"]) == (
            "dat does not exist; check the name and the folder. Did you mean 'data'?"
        )

    def test_no_match_of_a_known_kind(self, touch, complaint):
        touch("data/a.md")
        assert complaint(find_files, ["data/*.md"]).startswith(
            f"data/*.md holds no file of a known kind; {KNOWN}"
        )


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [("a.parquet", "pyarrow", "parquet"), ("a.txt.zst", "zstandard", "zstd")],
)
def test_a_library_is_missing(touch, monkeypatch, name, library, extra):
    touch(name)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    with pytest.raises(MissingExtra, match=rf"'{library}'.*clozeworks\[{extra}\]"):
        find_files([name])
