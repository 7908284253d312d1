package report

import (
	"slices"

	"github.com/caserun/caserun/results"
)

// expectedColumns are what a job is expected to do.
func expectedColumns() []Column {
	return []Column{{Name: "before", Unit: Seconds}, {Name: "held", Unit: Seconds}, {Name: "after", Unit: Seconds},
		{Name: "memory", Unit: Bytes, Place: TextOnly}, {Name: "bytes", Place: DataOnly},
		{Name: "kernels", Unit: Ratio, Drop: 1}, {Name: "sms", Heading: "SMs", Unit: Ratio, Drop: 2}}
}

func expectedValues(e results.Expected) []any {
	return []any{e.BeforeS, e.HeldS, e.AfterS, e.Bytes, e.Bytes, e.Kernels, e.SMs}
}

// predictionTable has a row for each job of which the run's scheduler knew something.
func predictionTable(r results.Run, jobs []results.Job, expected []results.Prediction) *Table {
	columns := slices.Concat([]Column{{Name: "job_index", Heading: "job"}, {Name: "name", Place: TextOnly}}, expectedColumns(), []Column{{Name: "source"}})
	t := &Table{Name: "prediction", Title: about("predictions of run", r), Detail: true, Columns: ofRun(columns...)}
	names := map[int]string{}
	for _, j := range jobs {
		names[j.Index] = j.Name
	}
	for _, p := range expected {
		t.Add(slices.Concat([]any{r.ID, r.Mode, p.Job, given(names[p.Job])}, expectedValues(p.Expected), []any{p.Source})...)
	}
	return t
}

// KnownTable has a row for each command and GPU model.
func KnownTable(title string, known []results.Known) *Table {
	t := &Table{Title: title, Columns: slices.Concat([]Column{{Name: "command", Cut: 24}, {Name: "gpu", Heading: "GPU"}, {Name: "mode", Place: DataOnly}, {Name: "source"},
		{Name: "runs", Place: DataOnly}, {Name: "jobs", Drop: 3}}, expectedColumns())}
	if slices.ContainsFunc(known, func(k results.Known) bool { return k.Mode() == results.Simulated }) {
		t.Say("SIMULATED: figures of a GPU that is called (simulated) come from a model, not from devices.")
	}
	for _, k := range known {
		values := make([]any, len(expectedColumns())) // nothing is known
		if k.Source != "" {
			values = expectedValues(k.Expected)
		}
		t.Add(slices.Concat([]any{k.Command, given(k.GPU), given(string(k.Mode())), given(k.Source), positive(k.Runs), positive(k.Jobs)}, values)...)
	}
	return t
}
