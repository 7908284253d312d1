package layer

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/internal/near"
)

// Job is what the variables of a job may say of it.
type Job struct {
	Index   int
	Bytes   int64    // that it states; 0: it states none, and may use its device
	Share   float64  // of a device's time that it asks for; 0: it asks for none, and may use all
	UUIDs   []string // of its devices
	Devices []int64  // capacity of each, in bytes
}

// The fields of values: those of a job, those of its device, and those of the run.
var (
	jobFields    = []string{"job.bytes", "job.index", "share", "share.percent"}
	deviceFields = []string{"device.uuid", "device.bytes"}
	runFields    = []string{"dir", "devices"}
)

var field = regexp.MustCompile(`\{[a-z][a-z.]*\}`)

// unknownField returns what is wrong with a field that is not known; "": all are.
func unknownField(text string, known ...string) string {
	for _, f := range field.FindAllString(text, -1) {
		if name := strings.Trim(f, "{}"); !slices.Contains(known, name) {
			return f + " is not a field here: " + near.OrKnown(name, known)
		}
	}
	return ""
}

func has(text string, fields []string) bool {
	return slices.ContainsFunc(field.FindAllString(text, -1), func(f string) bool { return slices.Contains(fields, strings.Trim(f, "{}")) })
}

// fill puts values in the place of fields.
func fill(text string, values map[string]string) string {
	return field.ReplaceAllStringFunc(text, func(f string) string {
		if v, known := values[strings.Trim(f, "{}")]; known {
			return v
		}
		return f
	})
}

// Environment is what the layer adds to the environment of a job.
func (r *Running) Environment(j Job) (env []string) {
	values := j.values()
	maps.Copy(values, r.values)
	for _, v := range r.Env {
		env = append(env, v.Name+"="+fill(v.Value, values))
	}
	return env
}

// values of a job's fields.
func (j Job) values() map[string]string {
	share, bytes := j.Share, j.Bytes
	if share == 0 {
		share = 1
	}
	v := map[string]string{"job.index": strconv.Itoa(j.Index), "share": strconv.FormatFloat(share, 'f', -1, 64),
		"share.percent": strconv.Itoa(int(max(1, 100*share+0.5)))}
	if len(j.Devices) > 0 {
		v["device.uuid"], v["device.bytes"] = strings.Join(j.UUIDs, ","), strconv.FormatInt(slices.Min(j.Devices), 10)
		if bytes == 0 {
			bytes = slices.Min(j.Devices)
		}
	}
	v["job.bytes"] = strconv.FormatInt(bytes, 10)
	return v
}
