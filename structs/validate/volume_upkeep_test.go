package validate

import (
	"strings"
	"testing"
	"time"

	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate/field"
)

// wantFault checks that a check has found a fault with a text, "" for none.
func wantFault(t *testing.T, rule any, f field.Errors, want string) {
	t.Helper()
	err := f.Err()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%+v: got %v, want %q", rule, err, want)
	}
}

func TestCheckVolume_NamesTheFaultOfTheGrowth(t *testing.T) {
	for want, rule := range map[string]*structs.CSIGrow{
		"":                        {At: 80, By: 20, Max: 1 << 30},
		"at (percent)":            {At: 100, By: 20, Max: 1 << 30},
		"by (percent)":            {At: 80, By: 101, Max: 1 << 30},
		"max is required":         {At: 80, By: 20},
		"above the largest size":  {At: 80, By: 20, Max: structs.MaxVolumeBytes + 1},
		"not be below capacity_m": {At: 80, By: 20, Max: 1 << 20},
	} {
		f := field.New("")
		checkVolumeUpkeep(f, &structs.CSIVolume{
			CSIVolumeSpec: structs.CSIVolumeSpec{Grow: rule, RequestedCapacityMin: 1 << 25},
		})
		wantFault(t, rule, f, want)
	}
}

func TestCheck_NamesTheFaultOfTheTrim(t *testing.T) {
	for every, want := range map[time.Duration]string{
		0:                        "",
		time.Hour:                "",
		720 * time.Hour:          "",
		-time.Hour:               "trim -1h0m0s must be 0, or 1h0m0s to 720h0m0s",
		time.Hour - 1:            "must be 0, or 1h0m0s",
		720*time.Hour + 1:        "must be 0, or 1h0m0s",
		time.Duration(1<<63 - 1): "must be 0, or 1h0m0s",
	} {
		f := field.New("")
		checkVolumeUpkeep(f, &structs.CSIVolume{CSIVolumeSpec: structs.CSIVolumeSpec{Trim: &every}})
		wantFault(t, every, f, want)
		f = field.New("")
		checkClassUpkeep(f, &storage.VolumeClass{Trim: &every})
		wantFault(t, every, f, want)
	}
}

func TestCheckVolume_TrimsNoBlockDevice(t *testing.T) {
	device := &structs.CSIVolumeCapability{AttachmentMode: structs.CSIBlockDevice}
	files := &structs.CSIVolumeCapability{AttachmentMode: structs.CSIFileSystem}
	for _, c := range []struct {
		every        time.Duration
		capabilities []*structs.CSIVolumeCapability
		want         string
	}{
		{time.Hour, nil, ""}, // a change of a volume that is there
		{time.Hour, []*structs.CSIVolumeCapability{device, files}, ""},
		{time.Hour, []*structs.CSIVolumeCapability{device, nil}, ""}, // which is another fault
		{time.Hour, []*structs.CSIVolumeCapability{device}, "trim needs a capability with attachment_mode"},
		{0, []*structs.CSIVolumeCapability{device}, ""},
	} {
		f := field.New("")
		checkVolumeUpkeep(f, &structs.CSIVolume{
			CSIVolumeSpec: structs.CSIVolumeSpec{Trim: &c.every, RequestedCapabilities: c.capabilities},
		})
		wantFault(t, c, f, c.want)
	}
}
