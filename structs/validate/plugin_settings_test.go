package validate

import (
	"strings"
	"testing"
	"time"

	"berth/structs/storage"
	"berth/structs/validate/field"
)

// TestCheckCalls_BoundsEachSetting: the error of a timeout says why it has a bound.
func TestCheckCalls_BoundsEachSetting(t *testing.T) {
	type calls = storage.PluginCalls
	const settled = "counts as settled 5m0s after it was sent, and it must have ended before"
	for _, c := range []struct {
		calls calls
		want  []string
	}{
		{calls{}, nil},
		{calls{CallsInFlight: 1, CallTimeout: 10 * time.Second}, nil},
		{calls{CallsInFlight: 64, CallTimeout: 4 * time.Minute}, nil},
		{calls{ControllerTimeout: 10 * time.Second, NodeTimeout: 4 * time.Minute}, nil},
		{calls{CallsInFlight: -1}, []string{"calls_in_flight -1 must be at least 1"}},
		{calls{CallsInFlight: 65}, []string{"calls_in_flight 65 must be at most 64"}},
		{calls{CallTimeout: -time.Minute}, []string{"call_timeout -1m0s must be 10s", settled}},
		{calls{CallTimeout: 10*time.Second - 1}, []string{"call_timeout 9.999999999s", settled}},
		{calls{CallTimeout: 4*time.Minute + 1}, []string{"call_timeout 4m0.000000001s", settled}},
		{calls{ControllerTimeout: time.Hour}, []string{"controller_timeout 1h0m0s must be", settled}},
		{calls{NodeTimeout: time.Second}, []string{"node_timeout 1s must be 10s to 4m0s", settled}},
	} {
		f := field.New("plugin")
		checkPluginCalls(f, &c.calls)
		err := f.Err()
		if (err == nil) != (c.want == nil) {
			t.Errorf("%+v: %v", c.calls, err)
		}
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: the error is %v, want %q in it", c.calls, err, want)
			}
		}
	}
}
