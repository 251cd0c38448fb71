"""The random source is ChaCha20 under keys that nobody shares; the lattice is exact."""

import copy
import os
import pickle
import select
import signal
import struct
import threading

import joblib
import numpy as np
import pytest
from randomgen import ChaCha

from skdp.trusted.randomness import SystemGenerator, as_generator, is_cryptographic

# Two honest streams agree on 16 bytes by chance once in 2**128 comparisons.
STREAM = 16

# RFC 8439, section 2.3.2: key 00..1f, block counter 1, nonce 00:00:00:09:00:00:00:4a:00:00:00:00.
RFC_KEY = bytes(range(32))
RFC_COUNTER = struct.pack("<I", 1) + bytes.fromhex("000000090000004a00000000")
RFC_BLOCK = bytes.fromhex(
    "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
    "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
)


def chacha_block(key, counter, rounds=20):
    """One 64-byte block, written from RFC 8439 alone; ``counter`` fills words 12 to 15."""
    start = struct.unpack("<16I", b"expand 32-byte k" + key + counter)
    state = list(start)

    def quarter_round(a, b, c, d):
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[x] = (state[x] + state[y]) % 2**32
            mixed = state[z] ^ state[x]
            state[z] = (mixed << turn | mixed >> (32 - turn)) % 2**32

    for _ in range(rounds // 2):
        for i in range(4):
            quarter_round(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter_round(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack("<16I", *((a + b) % 2**32 for a, b in zip(state, start, strict=True)))


def chacha_stream(key, n_blocks, rounds=20):
    return b"".join(chacha_block(key, i.to_bytes(16, "little"), rounds) for i in range(n_blocks))


def key_of(generator):
    return generator.bit_generator.state["state"]["keysetup"].astype("<u4").tobytes()


def some_bytes(generator):
    return generator.bytes(STREAM)


def fresh_bytes(_=None):
    return as_generator().bytes(STREAM)


def all_differ(streams):
    return len(set(streams)) == len(streams)


def test_the_block_function_of_these_tests_is_the_rfcs():
    assert chacha_block(RFC_KEY, RFC_COUNTER) == RFC_BLOCK


def test_randomgen_gives_the_rfc_block():
    """The counter of randomgen counts 32-bit words, sixteen to a block."""
    word = int.from_bytes(RFC_COUNTER, "little") * 16
    bits = ChaCha(key=int.from_bytes(RFC_KEY, "little"), counter=word, rounds=20)
    assert np.random.Generator(bits).bytes(64) == RFC_BLOCK


def test_default_generator_is_chacha20_under_its_own_key():
    """Its stream is that of the pure-Python ChaCha20, block after block; 12 rounds are caught."""
    generator = as_generator()
    key = key_of(generator)
    stream = generator.bytes(64 * 5)
    assert stream == chacha_stream(key, 5)
    assert stream != chacha_stream(key, 5, rounds=12)


def test_key_has_256_bits():
    """Every bit of the key takes both values.

    An honest bit stays constant over 64 keys with probability 2**-63: a false alarm in any of
    256 bits has probability below 3e-17. A 128-bit key leaves 128 of them constant.
    """
    keys = np.array([list(key_of(as_generator())) for _ in range(64)], dtype=np.uint8)
    bits = np.unpackbits(keys, axis=1)
    assert bits.shape == (64, 256)
    assert np.all(bits.any(axis=0) & ~bits.all(axis=0))


def test_every_call_and_every_child_has_a_stream_of_its_own():
    assert all_differ([fresh_bytes() for _ in range(100)])
    parent = as_generator()
    assert all_differ([key_of(member) for member in (parent, *parent.spawn(3))])


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))]
)
def test_no_copy_shares_the_stream(again):
    generator = as_generator()
    twin = again(generator)
    assert isinstance(twin, SystemGenerator)
    assert twin.bit_generator is not generator.bit_generator
    assert some_bytes(twin) != some_bytes(generator)


def test_the_pickle_does_not_contain_the_key():
    generator = as_generator()
    dumped = pickle.dumps(generator)
    assert key_of(generator) not in dumped
    assert len(dumped) < 200


def test_threads_never_share():
    streams = joblib.Parallel(n_jobs=4, prefer="threads")(
        joblib.delayed(fresh_bytes)() for _ in range(50)
    )
    assert all_differ(streams)


def test_worker_processes_never_share():
    """Neither fresh generators in workers nor one generator sent to several tasks."""
    generator = as_generator()
    with joblib.Parallel(n_jobs=2) as parallel:
        fresh = parallel(joblib.delayed(fresh_bytes)() for _ in range(6))
        sent = parallel(joblib.delayed(some_bytes)(generator) for _ in range(6))
    assert all_differ([*fresh, *sent, some_bytes(generator)])


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@needs_fork
def test_a_fork_rekeys_whoever_holds_the_bit_generator():
    """Each child has a stream of its own, also in a plain Generator over the same bits."""
    generator = as_generator()
    view = np.random.Generator(generator.bit_generator)
    both = [lambda: generator.bytes(STREAM) + view.bytes(STREAM)] * 3
    found = b"".join(map(in_forked_child, both))
    streams = [found[at : at + STREAM] for at in range(0, len(found), STREAM)]
    assert len(streams) == 6
    assert all_differ([*streams, some_bytes(generator), some_bytes(view)])


@needs_fork
def test_fork_while_another_thread_draws_does_not_block_the_child():
    """A lock held by a thread that does not exist in the child would be held for ever."""
    generator = as_generator()
    held, done = threading.Event(), threading.Event()

    def hold():
        with generator.bit_generator.lock:
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(30)
        assert len(in_forked_child(lambda: generator.bytes(32))) == 32
    finally:
        done.set()
        thread.join()


def in_forked_child(work):
    """Run ``work`` in a fork and return its bytes; a child that hangs is ended, and fails."""
    end, mouth = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover
        try:
            os.write(mouth, work())
        finally:
            os._exit(0)
    os.close(mouth)
    answered = select.select([end], [], [], 15)[0]
    if not answered:
        os.kill(pid, signal.SIGKILL)
    with os.fdopen(end, "rb") as reader:
        answer = reader.read()
    os.waitpid(pid, 0)
    assert answered, "The forked child was blocked."
    return answer


def test_seeds_repeat_and_generators_are_returned_as_they_are():
    assert as_generator(3).random() == as_generator(np.int64(3)).random()
    assert as_generator(3).random() != as_generator(4).random()
    generator = np.random.default_rng(0)
    assert as_generator(generator) is generator


def test_a_random_state_lends_its_stream():
    """Draws through the wrapper move the RandomState on."""
    state, twin = np.random.RandomState(5), np.random.RandomState(5)
    as_generator(state).random()
    twin.random_sample()
    assert state.random_sample() == twin.random_sample()


@pytest.mark.parametrize("wrong", [True, 1.5, "seed", -1, np.random, [1, 2]])
def test_anything_else_is_refused(wrong):
    with pytest.raises(ValueError, match="random_state must be"):
        as_generator(wrong)


def test_only_none_is_cryptographic():
    """A generator handed in may have been copied or shared: no promise rests on it."""
    assert is_cryptographic(None)
    for given_state in (0, np.random.default_rng(0), np.random.RandomState(0), as_generator()):
        assert not is_cryptographic(given_state)
