"""The programs of the tests: what people really write, each as small as it can be and still go wrong its own way."""

from __future__ import annotations

# A training loop that knows the client. Its state depends on every step, so that a step lost or done twice shows.
LOOP = """
import hashlib, time
import emep_job as job

state, start = b"", 0
if job.resuming():
    saved = job.resume_dir()
    state, start = (saved / "state").read_bytes(), int((saved / "step").read_text())
    print("resumed at", start, flush=True)
for step in range(start, 40):
    state = hashlib.sha256(state + str(step).encode()).digest()
    job.progress(step + 1, 40, loss=1 / (step + 1))
    time.sleep(0.02)
    if job.should_stop() or step == 4:
        with job.checkpoint(step + 1) as directory:
            (directory / "state").write_bytes(state)
            (directory / "step").write_text(str(step + 1))
        if job.should_stop():
            job.exit_checkpointed()
(job.output_dir() / "model").write_bytes(state)
job.artifact("model", "model", kind="model")
job.done()
"""

# The same for torch, with DataLoader workers and every generator in the checkpoint.
LOADER = """
import emep_job as job
job.attach()
import sys, time, torch
from torch.utils.data import DataLoader

torch.manual_seed(0)
torch.set_num_threads(1)
inputs = torch.randn(48, 8)
data = list(zip(inputs, inputs.sum(1, keepdim=True)))
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
first = 0
if job.resuming():
    saved = torch.load(job.resume_dir() / "state.pt", weights_only=True)
    net.load_state_dict(saved["net"]); optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["rng"]); first = saved["epoch"]
    print("resumed at", first, flush=True)
for epoch in range(first, EPOCHS):
    order = torch.Generator().manual_seed(epoch)
    for x, y in DataLoader(data, batch_size=8, shuffle=True, num_workers=2, generator=order):
        optimizer.zero_grad(); (net(x) - y).square().mean().backward(); optimizer.step()
        if "slow" in sys.argv: time.sleep(0.05)
    job.progress(epoch + 1, EPOCHS, unit="epoch")
    if job.should_stop():
        with job.checkpoint(epoch + 1) as directory:
            state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
            torch.save({**state, "epoch": epoch + 1}, directory / "state.pt")
        job.exit_checkpointed()
with open(job.output_dir() / "net.bin", "wb") as out:
    for tensor in net.state_dict().values(): out.write(tensor.numpy().tobytes())
job.artifact("net", "net.bin", kind="output")
job.done()
""".replace("EPOCHS", "4")

# Two ranks over gloo; only rank 0 saves, and all of them leave at the same step.
RANKS = """
import emep_job as job
job.attach()
import os, time, torch, torch.distributed as dist

dist.init_process_group("gloo")
total = torch.zeros(1)
for step in range(10_000):
    one = torch.ones(1)
    dist.all_reduce(one)
    total += one
    job.progress(step + 1, 10_000)
    if job.should_stop():
        with job.checkpoint(step + 1) as directory:
            (directory / "total").write_text(f"{int(total)} of {dist.get_world_size()} ranks at {step + 1}")
        print(f"rank {dist.get_rank()} leaves at {step + 1}\\n", end="", flush=True)  # in one write: both share a log
        dist.destroy_process_group()
        job.exit_checkpointed()
    time.sleep(0.01)
"""

# One rank a node: all of them add up, and each says what came of it.
SUM = """
import emep_job as job
job.attach()
import os, torch, torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} has {int(total)}", flush=True)
job.progress(1, 1)
job.done()
dist.destroy_process_group()
"""

# A shell script that knows nothing but the contract.
SHELL = """
n=$(cat "$EMEP_CHECKPOINT_DIR/n" 2>/dev/null || echo 0)
trap 'echo $n > "$EMEP_CHECKPOINT_DIR/n.tmp"; mv "$EMEP_CHECKPOINT_DIR/n.tmp" "$EMEP_CHECKPOINT_DIR/n"; exit 85' TERM
while [ $n -lt 1000 ]; do
  n=$((n + 1)); echo "{\\"type\\":\\"progress\\",\\"step\\":$n,\\"total\\":1000}" >> "$EMEP_EVENTS"; sleep 0.02
done
"""

# Saves from time to time and does not care about signals.
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
import emep_job as job
with job.checkpoint(3) as directory: (directory / "w").write_text("good")
(job.checkpoint_dir() / "half").write_text("never declared")
job.progress(3, 9)
while True: time.sleep(0.02)
"""

# As Lightning without a callback: stops in order, saves nothing, says all is well.
POLITE = """
import signal, sys, time
import emep_job as job
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
job.progress(1, 9)
while True: time.sleep(0.02)
"""

# A gigabyte, or what MIB says, to its log.
FLOOD = """
import os, sys
block = (b"flood " * 174763)[:2**20]
os.write(1, b"first words\\n")
for _ in range(int(sys.argv[1])): os.write(1, block)
os.write(1, b"\\nlast words\\n")
"""

# Two children that outlive it: one plain, one a daemon in a session of its own.
LITTER = """
import os, sys, time
pids = []
for own in (False, True):
    child = os.fork()
    if child == 0:
        if own: os.setsid()
        os.close(0)
        time.sleep(1000)
    pids.append(str(child))
print(*pids, flush=True)
"""

# Writes until somebody stops it.
GREEDY = """
import pathlib, time, os
block = os.urandom(2**20)
for i in range(10_000):
    pathlib.Path(os.environ["EMEP_SCRATCH_DIR"], f"f{i}").write_bytes(block)
    time.sleep(0.02)
"""
