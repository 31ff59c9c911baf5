package volume

import (
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// TestCallsText_ShowsTheBacklog: with the age of its oldest call, and nothing while the plugin has no calls.
func TestCallsText_ShowsTheBacklog(t *testing.T) {
	since := time.Now().Add(-3 * time.Hour).UnixNano()
	for _, c := range []struct {
		plugin structs.CSIPlugin
		want   string
	}{
		{structs.CSIPlugin{}, ""},
		{structs.CSIPlugin{CallsInFlight: 2}, "2 in flight, 0 waiting"},
		{structs.CSIPlugin{CallsInFlight: 2, CallsWaiting: 5, CallsWaitSince: since},
			"2 in flight, 5 waiting, the oldest began to wait 3h"},
	} {
		if got := callsText(&c.plugin); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
