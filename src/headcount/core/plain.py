"""Texts of others (names, prompts, what a library said) as they can be shown anywhere: in one piece, short, and with
nothing in them that a terminal, an XML reader or a table would obey."""

import re
import reprlib

OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Escape sequences begin with these, lines end with them, writing turns round at them, or no file can hold them."""


def plain(text: str) -> str:
    """The text on one line, with the code of each letter that would be obeyed: `\\x1b[31m` for red."""
    return OBEYED.sub(_code, text)


def plain_lines(text: str) -> str:
    """The same, with its line ends and tabs as they are."""
    return "\n".join("\t".join(map(plain, line.split("\t"))) for line in text.split("\n"))


def shortened(text: str, most: int) -> str:
    """At most so many characters: where there are more, the beginning and the end."""
    end = most // 3
    return text if len(text) <= most else f"{text[: most - end - 3]} … {text[-end:]}"


def quoted(value: object, most: int = 80) -> str:
    """A value of the user's as a message quotes it: as Python writes it, its depths and most of its length left out."""
    return shortened(plain(_SHORT.repr(value)), most)


def _code(found: "re.Match[str]") -> str:
    return found[0].encode("unicode_escape").decode()


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict, _SHORT.maxtuple = 3, 8, 4, 8
_SHORT.maxstring, _SHORT.maxlong, _SHORT.maxother = 70, 40, 70
