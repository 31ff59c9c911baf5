package watch

import (
	"strings"
	"testing"

	"berth/cli/command"
	"berth/structs"
)

// TestPrintFailures_WritesATextOnce checks that groups which wait for the same reason, such as the failed
// creation of their volume, repeat no text of several lines.
func TestPrintFailures_WritesATextOnce(t *testing.T) {
	rejected := func(reasons ...string) *structs.AllocMetric {
		m := &structs.AllocMetric{}
		for _, reason := range reasons {
			m.Rejections = append(m.Rejections, &structs.PlacementRejection{Filter: "csi-volume", Reason: reason})
		}
		return m
	}
	var out strings.Builder
	c := &command.Call{Stdio: command.Stdio{Out: &out}, Command: &command.Command{}}
	PrintFailures(c, &structs.Evaluation{FailedTGAllocs: map[string]*structs.AllocMetric{
		"a": rejected("no such pool", "no such zone"),
		"b": rejected("no such pool", "no such zone"),
		"c": rejected("no such pool"),
	}})
	want := `  Group "a": 1 allocation cannot be placed (0 nodes evaluated)
    rejected by csi-volume: no such pool
    rejected by csi-volume: no such zone
  Group "b": 1 allocation cannot be placed (0 nodes evaluated)
    as group "a"
  Group "c": 1 allocation cannot be placed (0 nodes evaluated)
    rejected by csi-volume: no such pool
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
