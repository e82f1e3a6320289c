"""One seed, many independent streams of random numbers.

A stream is named by words, such as ("order", epoch): it can be made again at any moment without
replaying what was drawn before, so a resumed run and an uninterrupted one draw the same numbers.

Where a call takes `rng`, it draws from it and moves it on. A number cannot be moved on: taken for a
generator, it would give every call of a loop the same draws. So `rng` is a generator and nothing else.
What a person calls takes `seed=` as well; inner functions take `rng` alone, after machine and data.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

import torch

from .errors import InputError, check_count


def stream(seed: int, *words: object, device: torch.device | str | None = None) -> torch.Generator:
    """A random generator that depends on the seed and on a name only.

    The same seed and words give the same draws, in whatever order streams are made.

    Parameters
    ----------
    seed : int
        Seed, at least 0.
    *words : object
        Name of the stream; its parts are turned into text.
    device : torch.device or str, default "cpu"
        Where the generator draws.

    Returns
    -------
    torch.Generator
        A new generator at its beginning.

    Raises
    ------
    InputError
        If the seed is not a whole number of at least 0.

    Examples
    --------
    >>> a, b = rb.stream(0, "chains"), rb.stream(0, "chains")
    >>> a.initial_seed() == b.initial_seed()
    True
    """
    check_seed(seed)
    text = "/".join(str(word) for word in (int(seed), *words))
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    rng = torch.Generator("cpu" if device is None else device)
    rng.manual_seed(int.from_bytes(digest, "little") >> 1)
    return rng


def check_rng(rng: Any, device: torch.device | None = None) -> None:
    """Refuses what is no generator, or draws on another device than that of the machine."""
    if not isinstance(rng, torch.Generator):
        raise InputError(
            f"rng is a torch.Generator, which moves on with every draw, not {rng!r}; make one with "
            "rapidbm.stream(7), or give seed= where the call takes one"
        )
    if device is not None and rng.device.type != device.type:
        raise InputError(
            f"a generator on {rng.device} cannot draw for a machine on {device}; make one there with "
            f"torch.Generator({device.type!r})"
        )


def check_seed(seed: Any) -> None:
    check_count("a seed", seed, least=0)
    if int(seed) >= 2**63:
        raise InputError(f"a seed is below 2^63 ≈ 9.2·10^18, not {seed}")


def seed_from(seed: int | None, rng: torch.Generator | None) -> int:
    """The seed that the caller gave, or one drawn from `rng`, or a fresh one."""
    if seed is not None and rng is not None:
        raise _both_given()
    if seed is not None:
        check_seed(seed)
        return int(seed)
    if rng is not None:
        check_rng(rng)
        return int(torch.randint(2**62, (), generator=rng, device=rng.device))
    return secrets.randbits(62)


def rng_from(
    seed: int | None,
    rng: torch.Generator | None,
    *words: object,
    device: torch.device | None = None,
) -> torch.Generator:
    """The generator that the caller gave, or the stream of these words under a seed, given or fresh."""
    if rng is None:
        return stream(seed_from(seed, None), *words, device=device)
    if seed is not None:
        raise _both_given()
    check_rng(rng, device)
    return rng


def _both_given() -> InputError:
    return InputError("give seed= or rng=, not both: each of them fixes every draw")
