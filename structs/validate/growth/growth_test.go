package growth

import (
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/validate/field"
)

func TestCheck_NamesTheFault(t *testing.T) {
	for want, rule := range map[string]*structs.CSIGrow{
		"":                        {At: 80, By: 20, Max: 1 << 30},
		"at (percent)":            {At: 100, By: 20, Max: 1 << 30},
		"by (percent)":            {At: 80, By: 101, Max: 1 << 30},
		"max is required":         {At: 80, By: 20},
		"above the largest size":  {At: 80, By: 20, Max: structs.MaxVolumeBytes + 1},
		"not be below capacity_m": {At: 80, By: 20, Max: 1 << 20},
	} {
		f := field.New("")
		Check(f, rule, 1<<25)
		err := f.Err()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", rule, err, want)
		}
	}
}
