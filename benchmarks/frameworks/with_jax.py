#!/usr/bin/env python3
import jax
import jax.numpy as jnp
import numpy as np
from chain import STEPS, check, matrices

x, w = matrices(jnp)
step = jax.jit(lambda x, w: x @ w % 3)
for _ in range(STEPS):
    x = step(x, w)
check("jax", np.asarray(x))
