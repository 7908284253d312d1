package results

// Metrics are a run's figures; docs/store.md defines each. Nil means that
// nothing was there to compute it from.
type Metrics struct {
	OK         int
	OOM        int
	Crashed    int // every outcome that counts as a crash, OOM included
	Cancelled  int
	NotStarted int

	MakespanS             *float64
	ThroughputJobsPerS    *float64 // ok jobs / makespan
	AttemptedJobsPerS     *float64 // all jobs / makespan
	TurnaroundMeanS       *float64 // over ok jobs
	TurnaroundP95S        *float64
	WaitMeanS             *float64 // over jobs that started or waited
	UtilizationMean       *float64
	UtilizationPeak       *float64
	KernelUtilizationMean *float64 // from kernel intervals
}
