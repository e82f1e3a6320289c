"""One seed, many independent streams of random numbers.

A stream is named by words, such as ("order", epoch): it can be made again at any moment without
replaying what was drawn before, so a resumed run and an uninterrupted one draw the same numbers.
"""

from __future__ import annotations

import hashlib
import secrets

import torch

from .errors import InputError, check_count


def generator(
    seed: int, *words: object, device: torch.device | str | None = None
) -> torch.Generator:
    """The generator of the stream that `words` name under `seed`."""
    text = "/".join(str(word) for word in (seed, *words))
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    rng = torch.Generator(device or "cpu")
    rng.manual_seed(int.from_bytes(digest, "little") >> 1)
    return rng


def check_seed(seed: int) -> None:
    check_count("a seed", seed, least=0)
    if seed >= 2**63:
        raise InputError(f"a seed is below 2^63 ≈ 9.2·10^18, not {seed}")


def seed_from(seed: int | None, rng: torch.Generator | None) -> int:
    """The seed that the caller gave, or one drawn from `rng`, or a fresh one."""
    if seed is not None and rng is not None:
        raise InputError("give seed= or rng=, not both: each of them fixes every draw")
    if seed is not None:
        check_seed(seed)
        return int(seed)
    if rng is not None:
        return int(torch.randint(2**62, (), generator=rng, device=rng.device))
    return secrets.randbits(62)
