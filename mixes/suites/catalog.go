package suites

import "github.com/caserun/caserun/mixes"

// CatalogJobs are the different jobs of these mixes of the catalog. Without names they are those
// of all mixes.
func CatalogJobs(names []string) ([]mixes.Job, error) {
	chosen := mixes.Catalog()
	if len(names) > 0 {
		chosen = nil
		for _, name := range names {
			m, err := mixes.Lookup(name)
			if err != nil {
				return nil, &MixError{err}
			}
			chosen = append(chosen, m)
		}
	}
	var jobs []mixes.Job
	seen := map[string]bool{}
	for _, m := range chosen {
		for _, j := range m.Jobs {
			if !seen[j.Name] {
				seen[j.Name] = true
				jobs = append(jobs, j)
			}
		}
	}
	return jobs, nil
}
