package mixes

import _ "embed"

// Template is a commented mix in YAML to start from.
//
//go:embed template.yaml
var Template string
