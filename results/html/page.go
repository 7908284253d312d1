// Package html writes runs as one self-contained page, which needs neither network nor other
// files. The page is readable without JavaScript; a little inline JavaScript chooses runs, sorts
// tables, hides arms, shows the numbers of a mark and zooms on time.
//
// Simulated numbers are called SIMULATED by a banner, a badge in each card and a watermark in each figure.
package html

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/trend"
	"github.com/caserun/caserun/userfile/output"
)

// Source gives the records of a run. The store is one.
type Source interface {
	Devices(ctx context.Context, run int64) ([]results.Device, error)
	Jobs(ctx context.Context, run int64) ([]results.Job, error)
	Ranks(ctx context.Context, run int64) ([]results.Rank, error)
	Tasks(ctx context.Context, run int64) ([]results.Task, error)
	Swaps(ctx context.Context, run int64) ([]results.Swap, error)
	Segments(ctx context.Context, run int64) ([]results.Segment, error)
	Predictions(ctx context.Context, run int64) ([]results.Prediction, error)
	Events(ctx context.Context, run int64) ([]results.Event, error)
}

// Options describe a page.
type Options struct {
	Title     string   // by default "caserun report"
	Store     string   // path of the store, for the reader
	Generator string   // version of the caserun that writes the page
	Base      string   // scheduler to which ratios are; by default sa, or the first
	Notes     []string // what a reader must know of the runs
	// Trend is a metric over time, also of runs that the page does not have; nil: none.
	Trend *trend.Trend
	// TrendFirst says that the page begins with the trend, because a user asked for it.
	TrendFirst bool
	// Unfinished says that runs are still to be made; nil: the page has all.
	Unfinished *Unfinished
}

// Unfinished is how far the runs of a page are.
type Unfinished struct {
	Done, Total int
	Written     time.Time
	Reloads     bool // the page is written again, so it reloads itself
}

// reload is the time after which a page reloads itself.
const reload = 10 * time.Second

// Seconds is the time after which the page reloads itself.
func (u Unfinished) Seconds() int { return int(reload.Seconds()) }

// Text says how far the runs are.
func (u Unfinished) Text() string {
	text := fmt.Sprintf("%d of %s, written at %s.", u.Done, size.Count(u.Total, "run"), u.Written.UTC().Format("2006-01-02 15:04:05 UTC"))
	if u.Reloads {
		return text + fmt.Sprintf(" The page reloads itself every %d seconds until the last run. What you unfold or zoom is lost then.", u.Seconds())
	}
	return text + " The command was stopped before the last run."
}

// mark is the beginning of every page. A file that begins otherwise was not written by caserun.
const mark = "<!DOCTYPE html>\n<!-- caserun report -->\n"

// File is the kind of file that a page is.
var File = output.Kind{Name: "a page of caserun report", Is: func(begin []byte) bool { return bytes.HasPrefix(begin, []byte(mark)) }}

// MaxRuns is the largest number of runs on one page. It keeps the page readable and small.
const MaxRuns = 1000

//go:embed assets
var assets embed.FS

var page = template.Must(template.New("page.tmpl").Funcs(template.FuncMap{"arm": figures.Class}).ParseFS(assets, "assets/*.tmpl"))

// view is what the template sees.
type view struct {
	Title        string
	Store        string
	Generator    string
	Policy       string
	Style        template.CSS
	Script       template.JS
	Simulated    simulation
	Places       []place
	Runs         *report.Table
	Arms         []armName
	Groups       []group
	Trend        *trendView
	TrendFirst   bool // which is above the schedulers
	Details      []runView
	Left         string // why some runs have no section of their own
	Environments []environment
	Unfinished   *Unfinished
}

// simulation says how many of a page's runs are modelled.
type simulation int

const (
	none simulation = iota
	some
	all
)

func (s simulation) Any() bool { return s != none }
func (s simulation) All() bool { return s == all }

// Write writes the page of the runs, in their order.
func Write(ctx context.Context, w io.Writer, source Source, runs []results.Run, o Options) error {
	if len(runs) == 0 {
		return fmt.Errorf("write HTML report: no runs")
	}
	if len(runs) > MaxRuns {
		return fmt.Errorf("write HTML report: %d runs are more than the %d that a page takes; select fewer", len(runs), MaxRuns)
	}
	v, err := build(ctx, source, runs, o)
	if err != nil {
		return fmt.Errorf("write HTML report: %w", err)
	}
	if _, err := io.WriteString(w, mark); err != nil {
		return fmt.Errorf("write HTML report: %w", err)
	}
	if err := page.Execute(w, v); err != nil {
		return fmt.Errorf("write HTML report: %w", err)
	}
	return nil
}

func build(ctx context.Context, source Source, runs []results.Run, o Options) (view, error) {
	style, script := asset("palette.css")+asset("style.css")+asset("figure.css")+armColours(), asset("script.js")
	v := view{Title: o.Title, Store: o.Store, Generator: o.Generator, Unfinished: o.Unfinished, Style: template.CSS(style), Script: template.JS(script), //nolint:gosec // our own files
		Policy: fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'", digest(style), digest(script))}
	if v.Title == "" {
		v.Title = "caserun report"
	}
	v.Simulated = simulated(runs)
	jobs, devices := make([][]results.Job, len(runs)), map[int64][]results.Device{}
	for i, r := range runs {
		var err error
		if jobs[i], err = source.Jobs(ctx, r.ID); err != nil {
			return v, err
		}
		if devices[r.ID], err = source.Devices(ctx, r.ID); err != nil {
			return v, err
		}
	}
	runs, err := withJobTimes(ctx, source, runs, jobs)
	if err != nil {
		return v, err
	}
	side := newSide(runs, jobs, devices)
	side.Notes = o.Notes
	found, err := compareSchedulers(side, o.Base)
	if err != nil {
		return v, err
	}
	arms := newArms(runs, found)
	v.Arms = arms.names
	v.Groups = groups(runs, jobs, arms, found)
	if v.Places, err = newPlaces(ctx, source, found, v.Groups, devices, arms); err != nil {
		return v, err
	}
	chosen := choose(runs)
	if len(chosen) < len(runs) {
		v.Left = fmt.Sprintf("To keep the page small, %d of the %d runs have a section of their own: of each arm first the one with the median makespan. Of the others the page has the figures of the list alone. To see more of one, name it: caserun report RUN --html FILE.",
			len(chosen), len(runs))
	}
	budget := newBudget(len(chosen))
	for i, r := range runs {
		if chosen[r.ID] {
			one, err := load(ctx, source, records{run: r, jobs: jobs[i], devices: devices[r.ID]})
			if err != nil {
				return v, err
			}
			v.Details = append(v.Details, newRunView(one, arms.of(r), budget))
		}
	}
	v.Runs = newRunList(runs, arms, chosen)
	v.Trend = newTrend(o.Trend, arms, onPage(runs, chosen))
	v.TrendFirst = o.TrendFirst && v.Trend != nil
	v.Environments = environments(runs)
	return v, nil
}

// newSide makes the page's runs a side of a comparison. Warm-up runs are not measurements.
func newSide(runs []results.Run, jobs [][]results.Job, devices map[int64][]results.Device) regress.Side {
	side := regress.Side{Label: "this page"}
	for i, r := range runs {
		if !r.Warmup {
			side.Runs = append(side.Runs, regress.Observation{Run: r, Devices: devices[r.ID], Commands: results.CommandList(jobs[i])})
		}
	}
	return side
}

// compareSchedulers finds the matrix of each place.
func compareSchedulers(side regress.Side, base string) ([]regress.Matrix, error) {
	return regress.Matrices(side, base, regress.Options{Unnamed: results.OnPages})
}

// withJobTimes gives the runs the figures that follow from their jobs.
func withJobTimes(ctx context.Context, source Source, runs []results.Run, jobs [][]results.Job) ([]results.Run, error) {
	times := map[int64][]results.JobTimes{}
	for i, r := range runs {
		predictions, err := source.Predictions(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		times[r.ID] = results.TimesOf(jobs[i], predictions)
	}
	runs = slices.Clone(runs)
	results.WithJobTimes(runs, times)
	return runs, nil
}

// records is everything that a run's section shows.
type records struct {
	run      results.Run
	jobs     []results.Job
	devices  []results.Device
	ranks    []results.Rank
	tasks    []results.Task
	swaps    []results.Swap
	segments []results.Segment
	events   []results.Event
}

// load reads the records of a run that a section needs beside its jobs and devices.
func load(ctx context.Context, source Source, one records) (records, error) {
	var err error
	if one.tasks, err = source.Tasks(ctx, one.run.ID); err != nil {
		return one, err
	}
	if one.ranks, err = source.Ranks(ctx, one.run.ID); err != nil {
		return one, err
	}
	if one.swaps, err = source.Swaps(ctx, one.run.ID); err != nil {
		return one, err
	}
	segments, err := source.Segments(ctx, one.run.ID)
	if err != nil {
		return one, err
	}
	one.segments = results.WithPower(segments)
	one.events, err = source.Events(ctx, one.run.ID)
	return one, err
}

func simulated(runs []results.Run) simulation {
	count := 0
	for _, r := range runs {
		if r.Mode == results.Simulated {
			count++
		}
	}
	switch count {
	case 0:
		return none
	case len(runs):
		return all
	}
	return some
}

// asset returns an embedded file for use as an element's content. It panics if the file contains
// text that would end the element.
func asset(name string) string {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	if strings.Contains(string(text), "</") {
		panic("html: " + name + " must not contain \"</\"")
	}
	return string(text)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
