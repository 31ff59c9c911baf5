package csi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// classStore is a state with an entry after the other.
type classStore struct {
	*state.Store
	t     *testing.T
	index uint64
}

func newClassStore(t *testing.T) *classStore {
	return &classStore{Store: state.New(), t: t, index: 10}
}

// tryClass applies an entry, and checks the invariants after it.
func tryClass[P any](s *classStore, apply func(*mvcc.WriteTx, *P) error, p *P) error {
	s.t.Helper()
	s.index++
	err := s.Write(s.index, func(tx *state.WriteTx) error { return apply(tx, p) })
	for _, fault := range state.Check(s.Read()) {
		s.t.Error(fault)
	}
	return err
}

func mustClass[P any](s *classStore, apply func(*mvcc.WriteTx, *P) error, p *P) {
	s.t.Helper()
	err := tryClass(s, apply, p)
	if err != nil {
		s.t.Fatal(err)
	}
}

// put puts the class "fast" after edits.
func (s *classStore) put(edits ...func(*storage.VolumeClass)) error {
	s.t.Helper()
	c := &storage.VolumeClass{Name: "fast", PluginID: "p", Parameters: map[string]string{"type": "image"}}
	for _, edit := range edits {
		edit(c)
	}
	return tryClass(s, csi.ClassPut, &storage.ClassPutRequest{Class: c})
}

func (s *classStore) putVolume(v *structs.CSIVolume) error {
	s.t.Helper()
	return tryClass(s, csi.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
}

// use stores a volume of the class "fast".
func (s *classStore) use(id string) {
	s.t.Helper()
	mustClass(s, csi.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{{
		ID: id,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			Class:      "fast",
			PluginID:   "p",
			ExternalID: "x-" + id,
			Parameters: map[string]string{"type": "image"},
			RequestedCapabilities: []*structs.CSIVolumeCapability{{
				AccessMode:     structs.CSISingleNodeWriter,
				AttachmentMode: structs.CSIFileSystem,
			}},
		},
	}}})
}

// wantFault checks the kind of an error and a part of its text. kind is "" for no error.
func wantFault(t *testing.T, err error, kind structs.Kind, text string) {
	t.Helper()
	switch {
	case kind == "" && err != nil:
		t.Errorf("got the error %v, want none", err)
	case kind != "" && (!structs.IsKind(err, kind) || !strings.Contains(err.Error(), text)):
		t.Errorf("got the error %v, want one of kind %s with %q", err, kind, text)
	}
}

func TestClassPut_FillsInTheDefaults(t *testing.T) {
	s := newClassStore(t)
	wantFault(t, s.put(), "", "")
	c := csi.Class(s.Read(), "fast")
	if c.Reclaim != storage.ReclaimRetain || c.Binding != storage.BindImmediate || c.QuotaWeight != 1 ||
		*c.DeleteAfter != 24*time.Hour {
		t.Errorf("got %+v with %s", c, *c.DeleteAfter)
	}
	wantFault(t, s.put(func(c *storage.VolumeClass) { c.DeleteAfter = new(time.Duration(0)) }), "", "")
	if after := *csi.Class(s.Read(), "fast").DeleteAfter; after != 0 {
		t.Errorf("delete_after 0 became %s", after)
	}
}

func TestClassPut_RejectsAFaultyClass(t *testing.T) {
	for fault, edit := range map[string]func(*storage.VolumeClass){
		"name is required":   func(c *storage.VolumeClass) { c.Name = "" },
		"at most 64 letters": func(c *storage.VolumeClass) { c.Name = "a/b" },
		"plugin_id is":       func(c *storage.VolumeClass) { c.PluginID = "" },
		"parameters":         func(c *storage.VolumeClass) { c.Parameters["x"] = strings.Repeat("v", 5000) },
		"mutable_parameters": func(c *storage.VolumeClass) {
			c.MutableParameters = map[string]string{"iops": strings.Repeat("1", 5000)}
		},
		"secrets_from is": func(c *storage.VolumeClass) { c.SecretsFrom = "elsewhere" },
		"mount_flags": func(c *storage.VolumeClass) {
			c.MountOptions = &structs.CSIMountOptions{MountFlags: []string{""}}
		},
		"allowed_topology 1": func(c *storage.VolumeClass) { c.AllowedTopologies = []*structs.CSITopology{nil} },
		"on_node_loss":       func(c *storage.VolumeClass) { c.OnNodeLoss = "x" },
		"reclaim":            func(c *storage.VolumeClass) { c.Reclaim = "x" },
		"binding":            func(c *storage.VolumeClass) { c.Binding = "x" },
		"quota_weight":       func(c *storage.VolumeClass) { c.QuotaWeight = -1 },
		"delete_after":       func(c *storage.VolumeClass) { c.DeleteAfter = new(-time.Second) },
		"description":        func(c *storage.VolumeClass) { c.Description = strings.Repeat("d", 257) },
		"flags could be kept": func(c *storage.VolumeClass) {
			c.MountOptions = &structs.CSIMountOptions{MountFlags: []string{structs.RedactedFlag}}
		},
	} {
		wantFault(t, newClassStore(t).put(edit), structs.KindInvalid, fault)
	}
	wantFault(t, tryClass(newClassStore(t), csi.ClassPut, &storage.ClassPutRequest{}), structs.KindInvalid,
		"no volume class")
}

func TestClassPut_KeepsTheFlagsThatAnAnswerHides(t *testing.T) {
	s := newClassStore(t)
	flags := func(flag string) func(*storage.VolumeClass) {
		return func(c *storage.VolumeClass) {
			c.MountOptions = &structs.CSIMountOptions{FSType: "xfs", MountFlags: []string{flag}}
		}
	}
	wantFault(t, s.put(flags("secret")), "", "")
	shown := csi.Class(s.Read(), "fast").Redacted()
	wantFault(t, s.put(flags(shown.MountOptions.MountFlags[0])), "", "")
	if got := csi.Class(s.Read(), "fast").MountOptions; !slices.Equal(got.MountFlags, []string{"secret"}) {
		t.Errorf("got the flags %v", got.MountFlags)
	}
}

func TestClassPut_AllowsOneDefault(t *testing.T) {
	s := newClassStore(t)
	isDefault := func(c *storage.VolumeClass) { c.Default = true }
	other := func(c *storage.VolumeClass) { c.Name = "slow" }
	wantFault(t, s.put(isDefault), "", "")
	wantFault(t, s.put(isDefault), "", "")
	wantFault(t, s.put(isDefault, other), structs.KindConflict, `"fast" is the default already`)
	if d := csi.DefaultClass(s.Read()); d == nil || d.Name != "fast" {
		t.Errorf("the default is %+v", d)
	}
	wantFault(t, s.put(), "", "")
	if d := csi.DefaultClass(s.Read()); d != nil {
		t.Errorf("the default is %+v, want none", d)
	}
	wantFault(t, s.put(isDefault, other), "", "")
}

func TestClass_OfVolumesKeepsItsPluginAndParameters(t *testing.T) {
	s := newClassStore(t)
	plugin := func(c *storage.VolumeClass) { c.PluginID = "q" }
	parameters := func(c *storage.VolumeClass) { c.Parameters = map[string]string{"type": "directory"} }
	wantFault(t, s.put(plugin), "", "")
	wantFault(t, s.put(), "", "")
	s.use("v1")
	wantFault(t, s.put(plugin), structs.KindConflict,
		`plugin_id of volume class "fast" cannot change while volume default/v1 names it`)
	wantFault(t, s.put(parameters), structs.KindConflict, "parameters of")
	wantFault(t, s.put(func(c *storage.VolumeClass) { c.Reclaim = storage.ReclaimDelete }), "", "")
}

func TestClass_OfVolumesIsNotDeleted(t *testing.T) {
	s := newClassStore(t)
	remove := func() error { return tryClass(s, csi.ClassDelete, &storage.ClassDeleteRequest{Name: "fast"}) }
	wantFault(t, remove(), structs.KindNotFound, `no volume class "fast"`)
	wantFault(t, s.put(), "", "")
	for _, id := range []string{"v1", "v2"} {
		s.use(id)
	}
	wantFault(t, remove(), structs.KindPrecondition, "2 volumes name it: default/v1, default/v2")
	for _, id := range []string{"v3", "v4"} {
		s.use(id)
	}
	wantFault(t, remove(), structs.KindPrecondition,
		"4 volumes name it, the first are default/v1, default/v2, default/v3")
	for _, id := range []string{"v1", "v2", "v3", "v4"} {
		mustClass(s, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: id})
	}
	wantFault(t, remove(), "", "")
}

func TestClassPut_BoundsTheNumberOfClasses(t *testing.T) {
	s := newClassStore(t)
	for i := range 1000 {
		err := s.Write(uint64(i+1), func(tx *state.WriteTx) error {
			return csi.ClassPut(tx, &storage.ClassPutRequest{
				Class: &storage.VolumeClass{Name: fmt.Sprint("c", i), PluginID: "p"},
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.index = 1000
	wantFault(t, s.put(), structs.KindPrecondition, "1000 volume classes, the most")
	wantFault(t, s.put(func(c *storage.VolumeClass) { c.Name = "c7" }), "", "")
}
