"""What the programs of this folder share: options, seeds, the way to the GPU, checks, and what they print.
README.md has the options and the exit statuses."""
import argparse
import ctypes
import os
import sys
import time
import types
import zlib

# cuBLAS gives the same bits in every run only with a workspace of this kind. It reads the variable when it starts.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

OUT_OF_MEMORY, NOT_INSTALLED, WRONG = 2, 3, 4
NAME = os.path.splitext(os.path.basename(sys.argv[0]))[0]


def end(status, text):
    print(f"{NAME}: {text}", file=sys.stderr)
    sys.exit(status)


try:
    import torch
except ImportError as e:
    end(NOT_INSTALLED, f"{sys.executable} cannot import torch ({e}): install PyTorch for it, as with "
        f"{sys.executable} -m pip install torch, or put another python3 first into PATH")


def positive(text):
    n = int(text)
    if n < 1:
        raise argparse.ArgumentTypeError(f"{n} is below 1")
    return n


class Program:
    """A run of a program. size has the numbers of full, or of tiny, as attributes; both have steps."""

    def __init__(self, doc, full, tiny):
        options = argparse.ArgumentParser(prog=NAME, description=doc)
        options.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cuda if absent")
        options.add_argument("--tiny", action="store_true", help="small, as for a test on a CPU")
        options.add_argument("--steps", type=positive, metavar="N", help=f"in place of {full['steps']}")
        chosen = options.parse_args()
        self.size = types.SimpleNamespace(**(tiny if chosen.tiny else full))
        self.size.steps = chosen.steps or self.size.steps
        self.device = torch.device(chosen.device)
        self.cuda = chosen.device == "cuda"
        if self.cuda and not torch.cuda.is_available():
            end(NOT_INSTALLED, f"PyTorch {torch.__version__} of {sys.executable} finds no GPU: install a build of "
                "PyTorch for CUDA, or use --device cpu --tiny")
        self.started = time.monotonic()
        self.wrong = []
        self.random = torch.Generator().manual_seed(2)
        torch.manual_seed(1)
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False  # it chooses kernels by their time

    def integers(self, below, *shape):
        """Draws integers, on the host."""
        return torch.randint(below, shape, generator=self.random)

    def numbers(self, *shape):
        """Draws numbers from -1 to 1, on the host. They have the same bits on every processor."""
        return torch.rand(*shape, generator=self.random) * 2 - 1

    def build(self, module):
        """Draws the weights of a module and moves it to the device."""
        with torch.no_grad():
            for w in module.parameters():
                if w.dim() > 1:
                    w.copy_(self.numbers(*w.shape) * (3 / w[0].numel()) ** 0.5)
        return module.to(self.device)

    def send(self, tensor):
        """Copies a tensor of the host to the device, as a loader of data does. Others stay where they are."""
        on_host = tensor.device.type == "cpu"
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.cuda and on_host else tensor

    def check(self, holds, what):
        """Notes that an output is wrong unless the condition holds."""
        if not holds:
            self.wrong.append(what)

    def same(self, a, b, what):
        self.check(torch.equal(a, b), f"{what}: other bits the second time, which differ by up to {distance(a, b):.3g}")

    def close(self, a, b, limit, what):
        self.check(distance(a, b) <= limit, f"{what}: they differ by up to {distance(a, b):.3g}, not {limit}")

    def gradients(self, function, *shapes):
        """Compares the gradients of a function with finite differences, in double, for inputs of these shapes."""
        inputs = [self.numbers(*s).double().to(self.device).requires_grad_() for s in shapes]
        inputs[0].square().sum().backward()  # a kernel, without which cuBLAS warns that the thread has no CUDA context
        self.check(torch.autograd.gradcheck(function, inputs, raise_exception=False),
                   "gradients differ from finite differences")

    def learn(self, module, optimizer, batch, loss_of):
        """Takes the steps of a training, and returns the first loss and the last. batch() draws a batch on the
        host. The gradients of the last step are computed twice and compared."""
        first = None
        for step in range(self.size.steps):
            inputs = [self.send(t) for t in batch()]

            def backward():
                optimizer.zero_grad(set_to_none=True)
                loss = loss_of(*inputs)
                loss.backward()
                return loss

            if step == self.size.steps - 1:
                small = [w for w in module.parameters() if w.numel() < 1 << 24]
                backward()
                once = torch.cat([w.grad.flatten() for w in small])
            loss = backward()
            optimizer.step()
            first = loss.item() if first is None else first
        self.same(once, torch.cat([w.grad.flatten() for w in small]), "the gradients of a step")
        return first, loss.item()

    def finish(self, result, text):
        """Prints the text and a checksum of the result, and ends the program."""
        data = result.detach().float().cpu().contiguous()
        self.check(bool(torch.isfinite(data).all()), "the result has values that are not finite")
        bits = ctypes.string_at(data.data_ptr(), 4 * data.numel())
        print(f"{NAME}: {text}, checksum {zlib.crc32(bits):08x}", flush=True)
        memory = ""
        if self.cuda:
            gib = [f(self.device) / (1 << 30) for f in (torch.cuda.max_memory_allocated, torch.cuda.max_memory_reserved)]
            memory = ", at most {:.2f} GiB in tensors and {:.2f} GiB reserved".format(*gib)
        print(f"{NAME}: {time.monotonic() - self.started:.1f} s{memory}", file=sys.stderr)
        if self.wrong:
            end(WRONG, "wrong output: " + "; ".join(self.wrong))


def distance(a, b):
    return (a.double() - b.double()).abs().max().item()


def run(main, doc, full, tiny):
    """Runs main(Program). A program that finds no memory says so by its exit status."""
    program = Program(doc, full, tiny)
    try:
        main(program)
    except torch.cuda.OutOfMemoryError as e:
        end(OUT_OF_MEMORY, str(e).splitlines()[0])
