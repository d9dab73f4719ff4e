#!/usr/bin/env python3
"""Makes the programs' inputs: pictures, texts, trees of files, genomes. The same bytes each time.

Usage: inputs.py FOLDER [--quick]

What is there already, of the same size, stays.

Needs nothing but Python 3.9.
"""

import random
import shutil
import struct
import sys
import zlib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def png(path, width, height, seed, noise):
    """A picture with areas, slopes and some noise, so that no filter is best for all rows."""
    numbers = random.Random(seed)
    rows = []
    for y in range(height):
        grain = numbers.randbytes(width * 3)
        slope = y * 255 // height
        band = (y // 32) % 4
        row = bytearray()
        for x in range(width):
            if band == 0:
                base = (slope, x * 255 // width, 128)
            elif band == 1:
                base = (200, 40 + (x // 16) % 2 * 150, slope)
            else:
                base = (x * y // 97 % 256, slope, (x + y) % 256)
            at = 3 * x
            row += bytes((
                (base[0] + grain[at] % noise) & 255,
                (base[1] + grain[at + 1] % noise) & 255,
                (base[2] + grain[at + 2] % noise) & 255,
            ))
        rows.append(b"\0" + bytes(row))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(rows), 3)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b""))


def pictures(folder, quick):
    count, side = (3, 64) if quick else (12, 320)
    for number in range(count):
        png(folder / f"picture-{number:02}.png", side + 16 * number, side, number, 1 + number % 5)
    side = 96 if quick else 1000
    png(folder / "large.png", side, side, 100, 4)
    png(folder / "large-changed.png", side, side, 100, 6)


def words(numbers, count):
    """A text: few words are common, most are rare."""
    vocabulary = ["".join(numbers.choices("aeioutnsrldm", k=numbers.randint(2, 9))) for _ in range(3000)]
    weights = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    chosen = numbers.choices(vocabulary, weights, k=count)
    return "\n".join(" ".join(chosen[at:at + 12]) for at in range(0, count, 12)) + "\n"


def texts(folder, quick):
    numbers = random.Random(200)
    for number in range(10 if quick else 300):
        (folder / f"text-{number:03}.txt").write_text(words(numbers, 200 if quick else 20_000))


def blobs(folder, quick):
    numbers = random.Random(300)
    block = numbers.randbytes(1 << 20)
    with open(folder / "large.bin", "wb") as file:
        for number in range(8 if quick else 512):
            file.write(number.to_bytes(8, "little") + block[8:])
    (folder / "small").mkdir()
    for number in range(20 if quick else 200):
        (folder / "small" / f"{number:03}.bin").write_bytes(number.to_bytes(8, "little") + block[:number * 5000])


def tree(folder, quick):
    """Nested folders of small files. Every fifth file is a copy of another one."""
    numbers = random.Random(400)
    folders, paths = [folder], []
    for number in range(30 if quick else 1500):
        path = numbers.choice(folders[-200:]) / f"folder-{number:04}"
        path.mkdir()
        folders.append(path)
    for number in range(200 if quick else 20_000):
        path = numbers.choice(folders) / f"file-{number:05}"
        if number % 5 == 4:
            shutil.copyfile(numbers.choice(paths[-100:]), path)
        else:
            path.write_bytes(numbers.randbytes(numbers.randint(1, 6000)))
        paths.append(path)


def sources(folder, quick):
    """This repository's sources, several times over."""
    for number in range(1 if quick else 12):
        for part in ("crates", "docs", "judges", "lab"):
            shutil.copytree(REPOSITORY / part, folder / str(number) / part, symlinks=True)


def genomes(folder, quick):
    """Sequences with one ancestor, each changed in some places."""
    numbers = random.Random(500)
    length = 200_000 if quick else 1_500_000
    ancestor = numbers.choices("ACGT", k=length)
    for number in range(3 if quick else 16):
        genome = ancestor.copy()
        for place in numbers.sample(range(length), length * (number + 1) // 200):
            genome[place] = numbers.choice("ACGT")
        text = "".join(genome)
        lines = "\n".join(text[at:at + 80] for at in range(0, length, 80))
        (folder / f"genome-{number:02}.fa").write_text(f">genome-{number:02}\n{lines}\n")


def main():
    folder, quick = Path(sys.argv[1]), "--quick" in sys.argv
    for make in (pictures, texts, blobs, tree, sources, genomes):
        place = folder / make.__name__
        done = folder / f"{make.__name__}.{'quick' if quick else 'full'}"
        # The repository's files change.
        if done.exists() and make is not sources:
            continue
        shutil.rmtree(place, ignore_errors=True)
        for mark in folder.glob(f"{make.__name__}.*"):
            mark.unlink()
        place.mkdir(parents=True)
        make(place, quick)
        done.touch()


if __name__ == "__main__":
    main()
