"""A hash of weights that notices when they change in memory, at the price of two sums and not of a hash each time."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

BLOCK = 2**13
Sums = tuple[tuple[str, str, tuple[int, ...], bytes], ...]


class HashOfWeights:
    """Remembers the last hash, and the sums of the weights that it belongs to."""

    def __init__(self) -> None:
        self._sums: Sums | None = None
        self._hash = ""

    def of(self, name: str, weights: Mapping[str, Tensor]) -> str:
        """`name`: of the class that the weights belong to."""
        sums = tuple(
            (key, str(weight.dtype), tuple(weight.shape), sums_of(weight)) for key, weight in sorted(weights.items())
        )
        if sums != self._sums:
            self._sums, self._hash = sums, _sha256(name, weights)
        return self._hash


@torch.no_grad()
def sums_of(weight: Tensor) -> bytes:
    """Sums of the bits, as whole numbers, over blocks and over the same place of all blocks: no single number can
    change, and no two can change places, without one of them changing too. That also holds for what goes past torch's
    own count of changes, such as `weight.data`."""
    bits = weight.detach().contiguous().reshape(-1).view(torch.uint8)
    bits = bits.clone() if bits.storage_offset() % 8 else bits
    whole = len(bits) // (8 * BLOCK) * 8 * BLOCK
    blocks, rest = bits[:whole].view(torch.int64).view(-1, BLOCK), bits[whole:]
    found = hashlib.blake2b(rest.cpu().numpy().tobytes(), digest_size=16)
    for axis in (0, 1) if whole else ():
        # numpy does it at the speed of the memory.
        sums = blocks.numpy().sum(axis) if blocks.device.type == "cpu" else blocks.sum(axis).cpu().numpy()
        found.update(sums.tobytes())
    return found.digest()


def _sha256(name: str, weights: Mapping[str, Tensor]) -> str:
    found = hashlib.sha256(name.encode())
    for key, weight in sorted(weights.items()):
        found.update(f"{key} {weight.dtype} {tuple(weight.shape)}".encode())
        found.update(weight.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy())  # type: ignore[arg-type, unused-ignore]
    return found.hexdigest()[:16]
