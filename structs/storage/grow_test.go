package storage

import (
	"testing"

	"berth/structs"
)

func TestNext_GrowsByAPartUpToItsBounds(t *testing.T) {
	const mib = int64(1) << 20
	for name, test := range map[string]struct {
		by          int
		size, limit int64
		want        int64
	}{
		"a part of the size":          {by: 20, size: 100 * mib, want: 120 * mib},
		"whole MiB":                   {by: 1, size: 10*mib + 1, want: 11 * mib},
		"a few bytes":                 {by: 50, size: 3, want: mib},
		"the largest size":            {by: 100, size: 900 * mib, want: 1000 * mib},
		"the largest size of a file":  {by: 100, size: 300 * mib, limit: 500 * mib, want: 500 * mib},
		"no further":                  {by: 100, size: 1000 * mib, want: 1000 * mib},
		"not above the bound of rows": {by: 100, size: structs.MaxVolumeBytes, want: 1000 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			rule := &structs.CSIGrow{At: 80, By: test.by, Max: 1000 * mib}
			if got := GrownSize(rule, test.size, test.limit); got != test.want {
				t.Errorf("grows to %d, want %d", got, test.want)
			}
		})
	}
}
