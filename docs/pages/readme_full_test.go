//go:build full

package main

import "testing"

func TestReadmeSaysWhatPlanDoes(t *testing.T) { shows(t, readmePlanPage) }
