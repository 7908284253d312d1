package runner

import (
	"time"

	"github.com/caserun/caserun/schedulers"
)

// TaskShape says that a task that has its device has a kernel of this size. The
// task's record keeps its largest (schedulers.Task.WithKernel).
func (b *Batch) TaskShape(id schedulers.TaskID, blocks uint64, threadsPerBlock, blocksPerSM uint32, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tasks[id]
	if t == nil {
		return
	}
	if _, larger := t.kernel().WithKernel(blocks, threadsPerBlock, blocksPerSM); larger {
		t.setKernel(blocks, threadsPerBlock, blocksPerSM)
		b.recorder.Task(t.record)
	}
	if b.jobs[t.job].binding != 0 {
		return
	}
	ds, err := b.engine.Shape(id, blocks, threadsPerBlock, blocksPerSM, now)
	b.check(err)
	b.carryOut(ds, now)
}

// kernel is the task's largest so far, as the schedulers compare them.
func (t *task) kernel() schedulers.Task {
	k := schedulers.Task{Blocks: t.record.Blocks, ThreadsPerBlock: t.record.ThreadsPerBlock, GridUnknown: t.record.Blocks == 0}
	if n := t.record.BlocksPerSM; n != nil {
		k.BlocksPerSM = *n
	}
	return k
}

func (t *task) setKernel(blocks uint64, threadsPerBlock, blocksPerSM uint32) {
	t.record.Blocks, t.record.ThreadsPerBlock, t.record.BlocksPerSM = blocks, threadsPerBlock, nil
	if blocksPerSM > 0 {
		t.record.BlocksPerSM = &blocksPerSM
	}
}
