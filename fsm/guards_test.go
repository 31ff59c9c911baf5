package fsm

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/admission"
	"berth/structs/cluster"
	"berth/structs/quota"
	snaprow "berth/structs/storage"
)

// putGuarded puts a row with the name x into the table of each guarded command.
func putGuarded(t *testing.T, s *state.Store, index uint64) {
	t.Helper()
	const ns = structs.DefaultNamespace
	err := s.Write(index, func(tx *state.WriteTx) error {
		schema.Nodes.Put(tx, &structs.Node{ID: "x", Status: structs.NodeDown})
		schema.NodePools.Put(tx, &cluster.NodePool{Name: "x"})
		schema.Namespaces.Put(tx, &cluster.Namespace{Name: "x"})
		schema.Jobs.Put(tx, &structs.Job{Namespace: ns, ID: "x"})
		volume := &structs.CSIVolume{
			Namespace: ns, ID: "x",
			CSIVolumeSpec:   structs.CSIVolumeSpec{PluginID: "x"},
			CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady},
		}
		schema.Volumes.Put(tx, volume)
		schema.Plugins.Put(tx, &structs.CSIPluginRow{ID: "x"})
		schema.VolumeClasses.Put(tx, &snaprow.VolumeClass{Name: "x"})
		schema.Snapshots.Put(tx, &snaprow.VolumeSnapshot{Namespace: ns, Name: "x"})
		schema.SnapshotGroups.Put(tx, &snaprow.GroupSnapshot{Namespace: ns, Name: "x"})
		schema.SnapshotSchedules.Put(tx, &snaprow.SnapshotSchedule{Namespace: ns, Name: "x"})
		schema.Quotas.Put(tx, &quota.Spec{Name: "x"})
		schema.AdmissionRules.Put(tx, &admission.Rule{Name: "x"})
		schema.ACLPolicies.Put(tx, &access.Policy{Name: "x"})
		schema.ACLAuthMethods.Put(tx, &access.AuthMethod{Name: "x"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// namingX returns a payload of a command that names x, and the row that its caller has seen.
func namingX(c *CommandInfo, created uint64) any {
	payload := c.Payload()
	v := reflect.ValueOf(payload).Elem()
	for _, field := range []string{"ID", "Name", "JobID", "VolumeID", "ScheduleName"} {
		if f := v.FieldByName(field); f.IsValid() {
			f.SetString("x")
		}
	}
	if f := v.FieldByName("NodeIDs"); f.IsValid() {
		f.Set(reflect.ValueOf([]string{"x"}))
	}
	if f := v.FieldByName("Claims"); f.IsValid() && f.Type() == reflect.TypeFor[[]structs.CSIClaimKey]() {
		f.Set(reflect.ValueOf([]structs.CSIClaimKey{{VolumeID: "x"}}))
	}
	payload.(interface{ Write() *structs.WriteOptions }).Write().Created = created
	return payload
}

// A destructive request about a row that was deleted and made anew changes nothing of the new one.
func TestGuarded_RejectARowThatWasMadeAnew(t *testing.T) {
	const made = 10
	for _, c := range guarded {
		apply := func(created uint64) error {
			s := state.New()
			putGuarded(t, s, made)
			return s.Write(made+1, func(tx *state.WriteTx) error { return c.apply(tx, namingX(c, created)) })
		}
		err := apply(made - 1)
		if !structs.IsKind(err, structs.KindConflict) || !strings.Contains(err.Error(), "was deleted meanwhile") {
			t.Errorf("%s of another row: %v", c.Name, err)
		}
		for _, seen := range []uint64{0, made} {
			if err := apply(seen); err != nil && strings.Contains(err.Error(), "was deleted meanwhile") {
				t.Errorf("%s with create index %d: %v", c.Name, seen, err)
			}
		}
	}
}

// unguarded are the destructive commands without a guard, with the reason.
var unguarded = map[string]string{
	"JobUntag":              "a tag keeps a version, and deletes none",
	"ServiceDelete":         "the ID is drawn",
	"RootKeyRemove":         "the ID is drawn",
	"SigningKeyRemove":      "the ID is drawn",
	"AuthorityRemove":       "the ID is that of the key",
	"JoinTokenDelete":       "the ID is drawn",
	"ACLRoleDelete":         "the ID is drawn",
	"ACLTokenDelete":        "the ID is drawn",
	"ACLBindingRuleDelete":  "the ID is drawn",
	"HostVolumeClaimDelete": "the ID is drawn",
	"VariableDelete":        "it has a check-and-set",
	"SITokensDeregister":    "the leader alone proposes it, about IDs",
}

// Each command that destroys what has a name is guarded.
func TestGuarded_AreAllDestructiveCommands(t *testing.T) {
	for _, c := range List() {
		destroys := false
		for _, part := range []string{"Delete", "Deregister", "Remove", "Untag", "Force"} {
			destroys = destroys || strings.Contains(c.Name, part)
		}
		if destroys && !slices.Contains(guarded, c) && unguarded[c.Name] == "" {
			t.Errorf("%s: guard it, or say why it needs no guard", c.Name)
		}
	}
}
