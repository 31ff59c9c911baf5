package validate

import (
	"strings"
	"testing"
	"time"

	"berth/structs/storage"
	"berth/structs/validate/field"
)

func TestCheckDrift_BoundsTheRuleAndTheTime(t *testing.T) {
	type settings = storage.PluginDrift
	for _, c := range []struct {
		drift settings
		want  string
	}{
		{settings{}, ""},
		{settings{Drift: storage.DriftReport, DriftInterval: time.Minute}, ""},
		{settings{Drift: storage.DriftRepair, DriftInterval: 24 * time.Hour}, ""},
		{settings{Drift: storage.DriftOff}, ""},
		{settings{Drift: "fix"}, `drift "fix" is unknown; one of report, repair, off`},
		{settings{DriftInterval: time.Minute - 1}, "drift_interval 59.999999999s must be 1m0s to 24h0m0s"},
		{settings{DriftInterval: 24*time.Hour + 1}, "drift_interval 24h0m0.000000001s must be"},
		{settings{DriftInterval: -time.Hour}, "drift_interval -1h0m0s must be"},
	} {
		f := field.New("plugin")
		checkPluginDrift(f, &c.drift)
		err := f.Err()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: the error is %v, want %q", c.drift, err, c.want)
		}
	}
}
