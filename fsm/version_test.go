package fsm

import "testing"

// TestCommands_KeepTheirVersions lists the commands of the existing versions, with the version that each one
// needs and whether it may share a batch. A later command has a later version.
func TestCommands_KeepTheirVersions(t *testing.T) {
	const latest = 2
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
		"VolumeDeregister":   {},
		"VolumeDelete":       {},
		"VolumeOutcome":      {Batched: true},
		"VolumeClaim":        {Batched: true},
		"VolumeUnpublish":    {Batched: true},
		"AttachmentOutcome":  {Batched: true},
		"PluginDelete":       {},
		"NodeExpanded":       {Since: 2},
		"VolumeRetry":        {Since: 2},
		"AttachmentsFound":   {Since: 2},
		"VolumeForce":        {Since: 2},
		"CallNote":           {Since: 2},
		"Batch":              {},
	}
	for _, c := range commands {
		entry := []byte{c.ID}
		want, known := held[c.Name]
		delete(held, c.Name)
		if got := CommandOf(entry); known &&
			(got.Since != want.Since || got.Batched != want.Batched) {
			t.Errorf("%s: got version %d, batched %v, want %+v", c.Name, got.Since, got.Batched, want)
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
