"""Seeded dice."""

from __future__ import annotations

import random

from gossamer.simulator.dice import SeededDice, derive


def test_equal_seeds_and_labels_throw_the_same() -> None:
    one, other = SeededDice(7, "a", 1, "x"), SeededDice(7, "a", 1, "x")
    assert [one.random() for _ in range(5)] == [other.random() for _ in range(5)]
    assert one.randrange(1000) == other.randrange(1000)
    assert one.choice(range(1000)) == other.choice(range(1000))
    first, second = list(range(50)), list(range(50))
    one.shuffle(first)
    other.shuffle(second)
    assert first == second != list(range(50))


def test_any_other_seed_node_life_or_label_throws_differently() -> None:
    keys = [(7, "a", 1, "x"), (8, "a", 1, "x"), (7, "b", 1, "x"), (7, "a", 2, "x"), (7, "a", 1, "y")]
    assert len({SeededDice(*key).random() for key in keys}) == len(keys)


def test_the_parts_of_a_key_cannot_run_into_each_other() -> None:
    assert derive(1, "a", 11, "x") != derive(1, "a1", 1, "x")


def test_the_seed_is_the_same_on_every_machine() -> None:
    assert derive(1, "a", 1, "x").hex()[:16] == DERIVED


def test_the_global_generator_is_neither_used_nor_disturbed() -> None:
    state = random.getstate()
    SeededDice(1).random()
    assert random.getstate() == state


DERIVED = "7846eccb208c3f9b"
