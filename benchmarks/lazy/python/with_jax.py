"""JAX: the driver API, a compiler, cuBLAS and cuFFT. Prints what it computed."""
import os

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"

import jax
import jax.numpy as jnp

print("count", len(jax.devices()), jax.default_backend())
x = jnp.arange(512 * 512, dtype=jnp.float32).reshape(512, 512) / 1e6
f = jax.jit(lambda a: jnp.tanh(a @ a.T).sum())
print("value", f"{float(f(x)):.4e}", "gradient", f"{float(jax.grad(f)(x).sum()):.3e}")
draws = jax.random.normal(jax.random.PRNGKey(0), (1000,))
print("draws", f"{float(draws.sum()):.4e}", "transform", f"{float(jnp.abs(jnp.fft.fft(x[0])).sum()):.4e}")
