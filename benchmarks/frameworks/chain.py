"""A chain of products of matrices whose entries are 0, 1 and 2. All sums are small integers, so that the result has the same bits
in every framework. Programs end with status 4 if it is wrong."""
import sys

import numpy as np

ROWS, WIDTH, STEPS = 131072, 2048, 200


def matrices(xp):
    """Returns the first matrix, 1 GiB, and the factor, made by an array module."""
    row, column = xp.arange(ROWS, dtype=xp.float32), xp.arange(WIDTH, dtype=xp.float32)
    first = (row % 97)[:, None] * (column % 89)[None] % 101 % 3
    return first, (column % 83)[:, None] * (column % 79)[None] % 101 % 3


def check(name, last):
    """Compares rows of the last matrix, which is in NumPy's memory, with those that NumPy finds."""
    row, column = np.array([0.0, 1000, ROWS - 1]), np.arange(WIDTH, dtype=float)
    wanted = (row % 97)[:, None] * (column % 89)[None] % 101 % 3
    factor = (column % 83)[:, None] * (column % 79)[None] % 101 % 3
    for _ in range(STEPS):
        wanted = wanted @ factor % 3
    print(f"{name}: sum {int(last.sum(dtype=np.float64))}", flush=True)
    if not (last[row.astype(int)] == wanted).all():
        sys.exit(4)
