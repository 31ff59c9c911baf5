package explain_test

import (
	"strings"
	"testing"
	"time"

	"berth/scheduler/explain"
	"berth/structs"
	"berth/structs/storage"
)

func TestReasons_OfAChangeOfParameters(t *testing.T) {
	now := time.Unix(1000, 0)
	before := func(d time.Duration) int64 { return now.Add(-d).UnixNano() }
	failure := func(op string) *structs.OperationError {
		return &structs.OperationError{
			Op: op, Message: "too fast", Attempts: 3, Time: before(time.Minute), RetryTime: before(-30 * time.Second),
		}
	}
	wanted := map[string]string{"iops": "3000", "tier": "secret-value"}
	for name, c := range map[string]struct {
		volume       structs.CSIVolume
		text, remedy string
		because      string
	}{
		"nothing": {volume: structs.CSIVolume{
			CSIVolumeSpec:   structs.CSIVolumeSpec{MutableParameters: wanted},
			CSIVolumeStatus: structs.CSIVolumeStatus{AppliedParameters: wanted},
		}},
		"pending": {
			volume: structs.CSIVolume{CSIVolumeSpec: structs.CSIVolumeSpec{MutableParameters: wanted}},
			text:   "the plugin is to change iops, tier of volume v",
			remedy: "if this lasts: berth plugin status p",
		},
		"one is applied": {
			volume: structs.CSIVolume{
				CSIVolumeSpec: structs.CSIVolumeSpec{MutableParameters: wanted},
				CSIVolumeStatus: structs.CSIVolumeStatus{
					AppliedParameters: map[string]string{"iops": "3000"},
					Call:              &structs.CSICall{NodeID: "n", Op: "modify", Time: before(2 * time.Minute)},
				},
			},
			text:    "the plugin is to change tier of volume v",
			remedy:  "if this lasts: berth plugin status p",
			because: "the outcome of the call to modify it, sent to node n, is unknown; only that node repeats it (sent 2m0s ago)",
		},
		"failing": {
			volume: structs.CSIVolume{
				CSIVolumeSpec:   structs.CSIVolumeSpec{MutableParameters: wanted},
				CSIVolumeStatus: structs.CSIVolumeStatus{LastError: failure(storage.OpModify)},
			},
			text: "the plugin is to change iops, tier of volume v: too fast (failures: 3, the last 1m0s ago; " +
				"the next attempt in 30s)",
			remedy: "to try now: berth volume retry v",
		},
		"pending, and another operation failed before": {
			volume: structs.CSIVolume{
				CSIVolumeSpec:   structs.CSIVolumeSpec{MutableParameters: wanted},
				CSIVolumeStatus: structs.CSIVolumeStatus{LastError: failure("")},
			},
			text:   "the plugin is to change iops, tier of volume v",
			remedy: "if this lasts: berth plugin status p",
		},
		"rejected": {
			volume: structs.CSIVolume{
				CSIVolumeSpec: structs.CSIVolumeSpec{MutableParameters: wanted},
				CSIVolumeStatus: structs.CSIVolumeStatus{
					AppliedParameters: wanted, LastError: failure(storage.OpModify),
				},
			},
			text: "the plugin has rejected the last change of the mutable parameters of volume v, which keeps those " +
				"that it has: too fast (failures: 3, the last 1m0s ago; the next attempt in 30s)",
			remedy: "correct mutable_parameters in its file and run it again: berth volume register FILE",
		},
		"another operation failed": {
			volume: structs.CSIVolume{
				CSIVolumeSpec:   structs.CSIVolumeSpec{MutableParameters: wanted},
				CSIVolumeStatus: structs.CSIVolumeStatus{AppliedParameters: wanted, LastError: failure("")},
			},
		},
		"it is deleted": {
			volume: structs.CSIVolume{
				CSIVolumeSpec:   structs.CSIVolumeSpec{MutableParameters: wanted},
				CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeDeleting},
				CSIVolumeStatus: structs.CSIVolumeStatus{LastError: failure(storage.OpModify)},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := c.volume
			v.ID = "v"
			v.Namespace = structs.DefaultNamespace
			v.PluginID = "p"
			if v.State == "" {
				v.State = structs.VolumeReady
			}
			got := explain.ModificationReasons(&v, now)
			if c.text == "" {
				if len(got) != 0 {
					t.Errorf("got %q", got[0].Text)
				}
				return
			}
			if len(got) != 1 || got[0].Text != c.text || got[0].Remedy != c.remedy {
				t.Fatalf("got %+v", got)
			}
			later := explain.ModificationReasons(&v, now.Add(time.Hour))
			if got[0].Same() != later[0].Same() || strings.Contains(got[0].Text, "secret-value") {
				t.Errorf("the fact %q is later %q", got[0].Same(), later[0].Same())
			}
			because := ""
			for _, r := range got[0].Because {
				because += r.Text
			}
			if because != c.because {
				t.Errorf("because %q", because)
			}
		})
	}
}
