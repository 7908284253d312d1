package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/userfile/output"
)

// The elements of JUnit XML, in an order that both schemas accept: Ant's
// (windyroad/JUnit-Schema) and Jenkins' (xunit-plugin, junit-10.xsd).
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		ID         int             `xml:"id,attr"`
		Package    string          `xml:"package,attr"`
		Name       string          `xml:"name,attr"`
		Timestamp  string          `xml:"timestamp,attr"` // UTC; the schema allows no zone
		Hostname   string          `xml:"hostname,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Time       string          `xml:"time,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
		Out        string          `xml:"system-out"`
		Err        string          `xml:"system-err"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name      string      `xml:"name,attr"`
		Classname string      `xml:"classname,attr"`
		Time      string      `xml:"time,attr"`
		Error     *junitFault `xml:"error"`
		Failure   *junitFault `xml:"failure"`
	}
	junitFault struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnitFile is the kind of file that JUnit writes. A nightly names the same file each time.
var JUnitFile = output.Kind{Name: "a JUnit report", Is: func(begin []byte) bool { return bytes.Contains(begin, []byte("<testsuites")) }}

// JUnit writes a gate's answer as JUnit XML: a suite for each arm, a case for each check. A
// check that fails is a failure. A check that measured too little is an error. The type is
// the cause.
func JUnit(w io.Writer, r regress.Report, host string, at time.Time) error {
	if host == "" {
		host = "localhost" // as the schema asks for
	}
	shown := func(text string) string { return Printable(text, "\n\t") } // XML has no control characters
	var doc junitSuites
	suites := map[results.Arm]int{}
	for _, c := range r.Checks {
		arm, text := shown(armName(c.Arm, r.Names)), c.Text
		if c.Since != nil {
			text += "; " + sinceText(*c.Since)
		}
		text = shown(text)
		i, begun := suites[c.Arm]
		if !begun {
			i = len(doc.Suites)
			suites[c.Arm] = i
			doc.Suites = append(doc.Suites, junitSuite{ID: i, Package: "caserun.regress", Name: arm,
				Timestamp: at.UTC().Format("2006-01-02T15:04:05"), Hostname: host, Time: "0",
				Properties: []junitProperty{{"baseline", shown(r.Baseline)}, {"candidate", shown(r.Candidate)}, {"alpha", fmt.Sprint(r.Alpha)},
					{"mode", string(modeOf(r))}, {"parameters", shown(c.Arm.Parameters)}, {"probe", c.Arm.Probe.String()}},
				Out: shown(strings.Join(gateNotes(r), "\n"))})
		}
		suite := &doc.Suites[i]
		test := junitCase{Name: c.Limit.String(), Classname: "caserun.regress." + strings.ReplaceAll(arm, ".", "_"), Time: "0"}
		fault := &junitFault{Type: string(c.Class), Message: string(c.Class) + ": " + text, Text: text}
		switch {
		case c.Class.Fails():
			test.Failure = fault
			suite.Failures++
		case c.Class.Unsettled():
			test.Error = fault
			suite.Errors++
		}
		suite.Tests++
		suite.Cases = append(suite.Cases, test)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(doc); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func armName(a results.Arm, names results.Names) string {
	if a.Mix == "" {
		return "all arms"
	}
	return names.Of(a)
}
