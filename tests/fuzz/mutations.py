"""Sound inputs made unsound, each by a few changes that a random number generator decides."""

import copy
import json
import random

STRANGE = (
    None, True, False, 0, -1, 1, 2, 7, 2**31, 2**63, 10**9, 10**30, 0.5, -0.5, 1e300, 1e-300, float("nan"),
    float("inf"), "", " ", "x", "x" * 5000, "None", "[/b]", "[bold]m[v2]", "\x1b[31mred\x1b[0m", "\x07\x08", "\u2028",
    "\x85", "\ud800", "\0", "~nobody-lives-here/x", "/dev/null", "../..", "a\nb", "{}", "%s{0}", "$x_$",
    "é" * 300, [], {}, [[]], [None], ["x"], [1, 2, 3], {"a": 1}, [[[[[[[[1]]]]]]]], "mean",
    "counterfactual", "resample", "scale(nan)", "scale(1e400)",
)  # fmt: skip
PIECES = (
    b"\0", b"\xff\xfe", b"\xed\xa0\x80", b'"', b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\r", b"\\", b"\\ud800",
    b"\xe2\x80\xa8", b"\xc2\x85", b"1e999", b"-", b"NaN", b"null", b"9" * 5000, b"[" * 3000, b"'''", b"=", b"#",
    b"\xef\xbb\xbf", b"\x1b[2J", b"true", b"0x", b" " * 500,
)  # fmt: skip


def strange(rng: random.Random) -> object:
    return copy.deepcopy(rng.choice(STRANGE))


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bits flipped, pieces put in, taken out, said twice; or the end cut off."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at, length = rng.randrange(len(data) + 1), rng.choice((1, 1, 3, 20, 200))
        way = rng.randrange(6)
        if way == 0 and data:
            at = rng.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        elif way == 1:
            data = data[:at] + rng.choice(PIECES) + data[at:]
        elif way == 2:
            data = data[:at] + data[at + length :]
        elif way == 3:
            data = data[:at] + data[at : at + length] * 2 + data[at + length :]
        elif way == 4:
            data = data[:at] + rng.choice(PIECES) + data[at + length :]
        else:
            data = data[:at]
    return data


def changed_value(value: object, rng: random.Random) -> object:
    """A value with some of its leaves, keys and branches changed."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        holders = list(_holders(value))
        if not holders:
            return strange(rng)
        holder = rng.choice(holders)
        place = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
        way = rng.randrange(5)
        if way == 0:
            del holder[place]
        elif way == 1 and isinstance(holder, dict):
            holder[rng.choice((f"{place}s", str(place).upper(), "", "\x1b", "x" * 500, "é"))] = holder.pop(place)
        elif way == 2 and isinstance(holder, list):
            holder.extend(copy.deepcopy(holder[place : place + 1]) * rng.choice((1, 3, 40)))
        else:
            holder[place] = strange(rng)
    return value


def _holders(value: object):
    """All lists and objects that hold something."""
    if isinstance(value, dict | list) and value:
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _holders(inner)


def changed_json(value: object, rng: random.Random, lines: bool = False) -> bytes:
    """As a file: by its values, by its bytes, or with a key that stands twice."""
    made = changed_value(value, rng) if rng.random() < 0.7 else value
    listed = made if lines and isinstance(made, list) else [made]
    text = "\n".join(json.dumps(each, ensure_ascii=rng.random() < 0.5) for each in listed)
    if rng.random() < 0.05:
        text = text.replace("{", '{"a": 1, "a": 2, ', 1)
    data = text.encode(errors="surrogatepass")
    return changed_bytes(data, rng) if rng.random() < 0.35 else data
