package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/policies"
)

// These offer values of flags, to complete what is typed. An offer is a word and, behind a tab, its description. Shells
// drop offers that do not begin with what is typed.

// Without leaves out the offers of given words.
func Without(given, offers []string) []string {
	return slices.DeleteFunc(offers, func(o string) bool {
		word, _, _ := strings.Cut(o, "\t")
		return slices.Contains(given, word)
	})
}

// InList offers the last name of a list, of names that the list does not have.
func InList(offer func(typed string) []string, typed string) (lists []string) {
	before := typed[:strings.LastIndex(typed, ",")+1]
	for _, o := range Without(strings.Split(before, ","), offer(typed[len(before):])) {
		lists = append(lists, before+o)
	}
	return lists
}

// OfferSchedulerName offers the schedulers.
func OfferSchedulerName(string) []string { return OfferScheduler("") }

// OfferScheduler offers the name of a scheduler, or of a policy of a cluster's head and behind its slash a node's scheduler. Behind a
// colon it offers the parameters that are not given yet, or the values of the parameter that is being typed. A name for it may stand before.
func OfferScheduler(typed string) (offers []string) {
	arm, unnamed, named := schedulers.CutName(typed)
	if named {
		arm += ":="
	}
	if head, node := cluster.Cut(unnamed); head != "" {
		for _, offer := range offerOne(node, policies.Listed()) {
			offers = append(offers, arm+head+offer)
		}
		return offers
	}
	for _, offer := range offerOne(unnamed, cluster.All()) {
		offers = append(offers, arm+offer)
	}
	return Without([]string{arm + cluster.Offload}, offers)
}

// offerOne is OfferScheduler without a name for it, of some schedulers.
func offerOne(typed string, of []policies.Info) (offers []string) {
	name, parameters, begun := strings.Cut(typed, ":")
	plain, layer, layered := schedulers.CutLayer(name)
	for _, s := range of {
		switch {
		case !begun && !layered:
			offers = append(offers, s.Name+"\t"+s.Brief)
		case !begun && s.Name == plain:
			offers = append(offers, offerLayers(s.Name+"@", layer)...)
		case s.Name == plain:
			offers = append(offers, offerParameters(s, name+":", parameters)...)
		}
	}
	return offers
}

// offerLayers are the builtin layers, and files that may describe one.
func offerLayers(before, typed string) (offers []string) {
	for _, l := range policies.Layers {
		offers = append(offers, before+l)
	}
	found, _ := filepath.Glob(escapeGlob(typed) + "*.yaml")
	for _, path := range found {
		offers = append(offers, before+path+"\ta file")
	}
	return offers
}

// offerParameters offers the parameters of a scheduler that are not given yet, or values of the one that is being typed.
// Several values have slashes between them.
func offerParameters(s policies.Info, before, typed string) (offers []string) {
	if s.External {
		offers = offerPrograms(before, typed)
	}
	given := typed[:strings.LastIndex(typed, ",")+1]
	key, value, valued := strings.Cut(typed[len(given):], "=")
	if values := s.Values(key); valued && values != nil {
		had := value[:strings.LastIndex(value, policies.ScanSign)+1]
		for _, v := range Without(strings.Split(had, policies.ScanSign), values) {
			offers = append(offers, before+given+key+"="+had+v)
		}
		return offers
	}
	for _, p := range s.Params {
		if !strings.Contains(","+given, ","+p.Name+"=") {
			offers = append(offers, fmt.Sprintf("%s%s%s=\t%s (%s)", before, given, p.Name, p.Help, p.Default))
		}
	}
	return offers
}

// offerPrograms are the files that can decide, and the folders in which there may be some, for an
// external scheduler's first parameter or its path=.
func offerPrograms(before, parameters string) (offers []string) {
	item := parameters[strings.LastIndex(parameters, ",")+1:]
	typed, named := strings.CutPrefix(item, "path=")
	if !named && item != parameters {
		return nil
	}
	folder, _ := filepath.Split(typed) // as it is typed, ./ included
	before += parameters[:len(parameters)-len(typed)] + folder
	entries, _ := os.ReadDir(filepath.Clean(folder)) // of "" it is .
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(folder, e.Name()))
		switch {
		case err != nil || strings.ContainsAny(e.Name(), ",\t\n"):
		case info.IsDir():
			offers = append(offers, before+e.Name()+"/\ta folder")
		case info.Mode().IsRegular() && info.Mode()&0o111 != 0:
			offers = append(offers, before+e.Name()+"\ta program")
		}
	}
	return offers
}

// OfferSchedulers offers the last scheduler of a list, or another. A comma may also be one between parameters.
func OfferSchedulers(typed string) []string {
	offers := InList(OfferScheduler, typed)
	items := strings.Split(typed, ",")
	last := len(items) - 1
	begin, at := 0, 0 // of the scheduler before the last item, and of an item
	for _, item := range items[:last] {
		if strings.Contains(item, ":") || !strings.Contains(item, "=") {
			begin = at
		}
		at += len(item) + 1
	}
	if at > 0 && !strings.Contains(items[last], ":") && strings.Contains(typed[begin:], ":") {
		for _, p := range OfferScheduler(typed[begin:]) {
			offers = append(offers, typed[:begin]+p)
		}
	}
	return offers
}

// OfferMix offers the mixes of the catalog, and mixes' files.
func OfferMix(typed string) []string {
	offers := offerCatalog(typed)
	found, _ := filepath.Glob(escapeGlob(typed) + "*")
	for _, path := range found {
		if suites.IsMixFile(path) {
			offers = append(offers, path+"\ta file")
		}
	}
	return offers
}

// escapeGlob makes the characters of a path stand for themselves.
var escapeGlob = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace

func offerCatalog(string) (names []string) {
	for _, m := range mixes.Catalog() {
		names = append(names, m.Name+"\t"+m.Description)
	}
	return names
}

// OfferMixes offers the last name of a list of mixes, or the end of a range.
func OfferMixes(typed string) []string { return InList(orRange(OfferMix), typed) }

// OfferCatalogMixes is OfferMixes for a flag that takes no files.
func OfferCatalogMixes(typed string) []string { return InList(orRange(offerCatalog), typed) }

// orRange offers also the end of a range of mixes, such as W1..W8 or W1-W8.
func orRange(offer func(string) []string) func(string) []string {
	return func(typed string) (ranges []string) {
		first, _, isRange := strings.Cut(typed, "..")
		to := ".."
		if before, _, hyphen := strings.Cut(typed, "-"); hyphen && strings.TrimRight(before, "0123456789") != before {
			first, to, isRange = before, "-", true
		}
		if !isRange {
			return offer(typed)
		}
		prefix := strings.TrimRight(first, "0123456789")
		from, err := strconv.Atoi(first[len(prefix):])
		for _, m := range mixes.Catalog() {
			number, samePrefix := strings.CutPrefix(m.Name, prefix)
			if last, notNumber := strconv.Atoi(number); err == nil && notNumber == nil && samePrefix && last > from {
				ranges = append(ranges, fmt.Sprintf("%s%s%s\t%d mixes", first, to, m.Name, last-from+1))
			}
		}
		return ranges
	}
}

// OfferProbe offers the probes.
func OfferProbe(string) (offers []string) {
	whose := map[string]string{
		results.Lazy.String():     "unmodified programs",
		results.Static.String():   "programs that casecc compiled",
		results.Explicit.String(): "programs that call the task API",
	}
	for _, p := range results.Probes() {
		offers = append(offers, p+"\ttasks of "+whose[p])
	}
	return offers
}

// OfferFormat offers the formats of tables.
func OfferFormat(string) (offers []string) {
	for _, f := range report.Formats() {
		offers = append(offers, string(f)+"\t"+f.About())
	}
	return offers
}

// OfferMetric offers the metrics that flags take.
func OfferMetric(string) (offers []string) {
	for _, m := range regress.Metrics() {
		offers = append(offers, m.Name)
	}
	return offers
}

// OfferLimit offers the metrics that a limit may be of.
func OfferLimit(string) (offers []string) {
	for _, name := range OfferMetric("") {
		offers = append(offers, name+"=")
	}
	return offers
}
