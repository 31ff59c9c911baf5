package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"berth/structs"
)

// TestNodeStatus_ShortensDescriptionsOfDrivers checks the width of a node's page, and that -verbose has all.
func TestNodeStatus_ShortensDescriptionsOfDrivers(t *testing.T) {
	text := strings.Repeat("no daemon\nanswers ", 30) + "at all"
	drivers := map[string]*structs.DriverInfo{"docker": {Detected: true, HealthDescription: text}}
	for _, verbose := range []string{"false", "true"} {
		var out strings.Builder
		c := &Call{
			Stdio:  Stdio{Out: &out},
			cmd:    &Command{Renders: true, Flags: []Flag{verboseFlag}},
			values: map[string][]string{"verbose": {verbose}},
		}
		printDrivers(c, drivers)
		if whole := strings.Contains(out.String(), "at all"); whole != (verbose == "true") {
			t.Errorf("-verbose=%s: the whole text is shown: %t\n%s", verbose, whole, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if width := utf8.RuneCountInString(line); verbose == "false" && width > 110 {
				t.Errorf("a line has %d columns: %s", width, line)
			}
		}
	}
}
