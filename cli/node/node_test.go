package node

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"berth/cli/clitest"
	"berth/cli/command"
	"berth/structs"
)

// TestNodeStatus_ShortensTexts checks the width of a node's page, and that -verbose has all.
func TestNodeStatus_ShortensTexts(t *testing.T) {
	text := strings.Repeat("no daemon\nanswers ", 30) + "at all"
	drivers := map[string]*structs.DriverInfo{"docker": {Detected: true, HealthDescription: text}}
	healthy := &structs.CSIInfo{
		AllocID: clitest.Node1,
		Healthy: true,
		NodeInfo: &structs.CSINodeInfo{
			MaxVolumes:         256,
			AccessibleTopology: &structs.CSITopology{Segments: map[string]string{"zone": text}},
		},
	}
	broken := *healthy
	broken.Healthy = false
	broken.HealthDescription = text
	event := func(message, detail string) []*structs.NodeEvent {
		return []*structs.NodeEvent{{
			Timestamp: time.Now(),
			Subsystem: "Cluster",
			Message:   message,
			Details:   map[string]string{"detail": detail},
		}}
	}
	events := func(message, detail string) func(*command.Call) {
		return func(c *command.Call) { nodeEventSheet.Section(c, "Events", event(message, detail)) }
	}
	plugins := func(nodes, controllers *structs.CSIInfo) *structs.NodeDetail {
		n := &structs.NodeDetail{}
		if nodes != nil {
			n.CSINodePlugins = map[string]*structs.CSIInfo{"hostpath": nodes}
		}
		if controllers != nil {
			n.CSIControllerPlugins = map[string]*structs.CSIInfo{"hostpath": controllers}
		}
		return n
	}
	for name, c := range map[string]struct {
		print func(c *command.Call)
		width int
	}{
		"driver":        {func(c *command.Call) { printDrivers(c, drivers) }, 110},
		"message":       {events(text, "x"), 110},
		"details":       {events("x", text), 110},
		"both":          {events(text, text), 110},
		"topology":      {func(c *command.Call) { printNodePlugins(c, plugins(healthy, nil)) }, 110},
		"a broken half": {func(c *command.Call) { printNodePlugins(c, plugins(nil, &broken)) }, 160},
	} {
		t.Run(name, func(t *testing.T) { testWidth(t, c.print, c.width) })
	}
}

func testWidth(t *testing.T, print func(*command.Call), most int) {
	for _, verbose := range []string{"false", "true"} {
		var out strings.Builder
		c := &command.Call{
			Stdio:   command.Stdio{Out: &out},
			Command: &command.Command{Renders: true, Flags: []command.Flag{command.VerboseFlag}},
		}
		if err := c.Parse([]string{"-verbose=" + verbose}); err != nil {
			t.Fatal(err)
		}
		print(c)
		if whole := strings.Contains(out.String(), "at all"); whole != (verbose == "true") {
			t.Errorf("-verbose=%s: the whole text is shown: %t\n%s", verbose, whole, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if width := utf8.RuneCountInString(line); verbose == "false" && width > most {
				t.Errorf("a line has %d columns: %s", width, line)
			}
		}
	}
}
