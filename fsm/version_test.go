package fsm

import (
	"testing"
	"time"

	"berth/structs"
)

// TestCommands_KeepTheirVersions lists the commands of the existing versions, with the versions that each one
// and its later field need, and whether it may share a batch. A later command has a later version.
func TestCommands_KeepTheirVersions(t *testing.T) {
	const latest = 3
	held := map[string]CommandInfo{
		"NodeRegister":       {Batched: true},
		"NodeDeregister":     {},
		"NodeStatus":         {Batched: true},
		"NodeEligibility":    {},
		"NodeUpdateCSI":      {Batched: true},
		"NodeEvents":         {},
		"NodeUpdate":         {Since: 1, Batched: true},
		"JobRegister":        {},
		"JobDeregister":      {},
		"EvalUpdate":         {Batched: true},
		"PlanApply":          {Batched: true},
		"AllocsClientUpdate": {Batched: true},
		"AllocStop":          {},
		"Reap":               {},
		"VolumePut":          {Batched: true},
		"VolumeDeregister":   {fieldSince: 3},
		"VolumeDelete":       {},
		"VolumeOutcome":      {Batched: true},
		"VolumeClaim":        {Batched: true},
		"VolumeUnpublish":    {Batched: true},
		"AttachmentOutcome":  {Batched: true},
		"PluginDelete":       {},
		"NodeExpanded":       {Since: 2},
		"VolumeRetry":        {Since: 2},
		"AttachmentsFound":   {Since: 2},
		"VolumeForce":        {Since: 2, fieldSince: 3},
		"CallNote":           {Since: 2},
		"Batch":              {},
	}
	for _, c := range commands {
		entry := []byte{c.ID}
		want, known := held[c.Name]
		delete(held, c.Name)
		if got := CommandOf(entry); known &&
			(got.Since != want.Since || got.Batched != want.Batched || got.fieldSince != want.fieldSince) {
			t.Errorf("%s: got version %d, batched %v, a field of version %d, want %+v",
				c.Name, got.Since, got.Batched, got.fieldSince, want)
		}
		if !known && c.Since <= latest {
			t.Errorf("%s is new and has version %d, but servers of that version do not know it", c.Name, c.Since)
		}
		if c.Since > Version() {
			t.Errorf("%s needs version %d of %d", c.Name, c.Since, Version())
		}
	}
	for name := range held {
		t.Errorf("there is no command %s", name)
	}
	if Version() < latest {
		t.Errorf("the version is %d, and was %d", Version(), latest)
	}
	for _, entry := range [][]byte{nil, {250}} {
		if got := CommandOf(entry); got.ID != 0 || got.Since != 0 || got.Batched {
			t.Errorf("entry %v: got command %+v, want none", entry, got)
		}
	}
}

// An older server would apply an entry without a field that it does not know.
func TestNeeds_CountsAFieldWhereItIsSet(t *testing.T) {
	for _, settle := range []time.Duration{0, time.Minute} {
		force, err := VolumeForce.Encode(&structs.CSIVolumeForceRequest{VolumeID: "v", Settle: settle})
		if err != nil {
			t.Fatal(err)
		}
		deregister, err := VolumeDeregister.Encode(&structs.CSIVolumeDeregisterRequest{ID: "v", Settle: settle})
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range [][]byte{force, deregister} {
			c := CommandOf(entry)
			want := c.Since
			if settle != 0 {
				want = 3
			}
			if got := c.Needs(entry); got != want {
				t.Errorf("%s with Settle %s needs version %d, want %d", c.Name, settle, got, want)
			}
		}
	}
}
