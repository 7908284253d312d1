//go:build full

package pages

import "testing"

func TestReadmeSaysWhatPlanDoes(t *testing.T) { shows(t, readmePlanPage) }
