"""Reads a folder of texts as windows of characters, for models/char_gpt.onnx. Needs only Python's
standard library."""
import os
import random

WINDOW = 64  # characters that the model reads at once

# No training window is taken from these texts.
HELD_OUT = ("Apache-2.0.txt", "CC0-1.0.txt")


class Text:
    """characters: the characters of all texts, sorted. A character's number is its position there."""

    def __init__(self, folder):
        texts = {}
        for name in sorted(os.listdir(folder)):
            if name.endswith(".txt"):
                with open(os.path.join(folder, name), encoding="ascii", newline="") as file:
                    texts[name] = file.read()
        self.characters = "".join(sorted(set("".join(texts.values()))))
        number = {c: i for i, c in enumerate(self.characters)}
        self._train = [number[c] for name, text in texts.items() if name not in HELD_OUT for c in text]
        self._held_out = [number[c] for name in HELD_OUT for c in texts[name]]

    def training(self, count):
        """`count` windows of WINDOW + 1 numbers, at random places that are the same in every run."""
        places = random.Random(1)
        last = len(self._train) - WINDOW - 1
        return [self._train[p:p + WINDOW + 1] for p in (places.randint(0, last) for _ in range(count))]

    def validation(self):
        """The held-out texts in windows of WINDOW + 1 numbers. Each window begins with the last
        character of the window before it."""
        ends = range(WINDOW, len(self._held_out), WINDOW)
        return [self._held_out[e - WINDOW:e + 1] for e in ends]
