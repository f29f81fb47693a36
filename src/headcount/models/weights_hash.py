"""A hash of weights that notices when they change in memory, at the price of reading them once and not of a SHA-256
each time."""

import hashlib
from collections.abc import Mapping

import torch
import xxhash
from torch import Tensor

BLOCK = 2**13
Glance = tuple[tuple[str, str, tuple[int, ...], bytes], ...]


class HashOfWeights:
    """Remembers the last hash, and how the weights looked that it belongs to."""

    def __init__(self) -> None:
        self._glance: Glance | None = None
        self._hash = ""

    def of(self, name: str, weights: Mapping[str, Tensor]) -> str:
        """`name`: of the class that the weights belong to."""
        glance = tuple(
            (key, str(weight.dtype), tuple(weight.shape), glance_at(weight)) for key, weight in sorted(weights.items())
        )
        if glance != self._glance:
            self._glance, self._hash = glance, _sha256(name, weights)
        return self._hash


def glance_at(weight: Tensor) -> bytes:
    """Of all bits, at the speed of the memory that they lie in. It never leaves this process: where somebody may want a
    collision, SHA-256 is compared. It also notices what torch itself does not count, as changes of `weight.data`."""
    if weight.device.type == "cpu":
        return xxhash.xxh3_128_digest(_bits(weight).numpy().data)
    return sums_of(weight)


@torch.no_grad()
def sums_of(weight: Tensor) -> bytes:
    """For an accelerator, whose memory is not copied: sums of the bits, as whole numbers, over blocks and over the same
    place of all blocks. No single number can change, and no two can change places, without one of them changing too."""
    bits = _bits(weight)
    bits = bits.clone() if bits.storage_offset() % 8 else bits
    whole = len(bits) // (8 * BLOCK) * 8 * BLOCK
    blocks, rest = bits[:whole].view(torch.int64).view(-1, BLOCK), bits[whole:]
    found = hashlib.blake2b(rest.cpu().numpy().tobytes(), digest_size=16)
    for axis in (0, 1) if whole else ():
        found.update(blocks.sum(axis).cpu().numpy().tobytes())
    return found.digest()


def _bits(weight: Tensor) -> Tensor:
    return weight.detach().contiguous().reshape(-1).view(torch.uint8)


def _sha256(name: str, weights: Mapping[str, Tensor]) -> str:
    found = hashlib.sha256(name.encode())
    for key, weight in sorted(weights.items()):
        found.update(f"{key} {weight.dtype} {tuple(weight.shape)}".encode())
        found.update(_bits(weight).cpu().numpy())  # type: ignore[arg-type, unused-ignore]
    return found.hexdigest()[:16]
