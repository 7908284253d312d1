package results

// Misdeclared is a command whose mix declares less than a third or more than three times the
// device memory that its jobs used.
type Misdeclared struct {
	Name          string // of its first job
	DeclaredBytes int64
	UsedBytes     int64 // the most that one job used
}

// Misdeclarations returns the misdeclared commands of a run, in the order of its jobs. A
// command declares too much only if a job of it ended ok, because a job that failed may not
// have reached its peak.
func Misdeclarations(jobs []Job) []Misdeclared {
	type declaration struct {
		command string
		bytes   int64
	}
	var order []declaration
	found := map[declaration]*Misdeclared{}
	ok := map[declaration]bool{}
	for _, j := range jobs {
		if j.FootprintBytes == nil || j.UsedBytes == nil || j.Devices != nil { // what it used on each of several devices is not known
			continue
		}
		d := declaration{j.Command, *j.FootprintBytes}
		m := found[d]
		if m == nil {
			m = &Misdeclared{Name: j.Name, DeclaredBytes: d.bytes}
			found[d] = m
			order = append(order, d)
		}
		m.UsedBytes = max(m.UsedBytes, *j.UsedBytes)
		ok[d] = ok[d] || j.Outcome != nil && *j.Outcome == OK
	}
	var out []Misdeclared
	for _, d := range order {
		m := found[d]
		if declared, used := float64(m.DeclaredBytes), float64(m.UsedBytes); declared < used/3 || declared > 3*used && ok[d] {
			out = append(out, *m)
		}
	}
	return out
}
