package trust_test

import (
	"strings"
	"testing"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

func TestWarning_NamesThePartThatWaitsForAKey(t *testing.T) {
	s := newKeyStore(t)
	inFile := &structs.WorkloadIdentity{Name: structs.DefaultIdentity, File: true}
	other := &structs.WorkloadIdentity{Name: "other"}
	others := []*structs.WorkloadIdentity{other}
	jobs := map[string]*structs.TaskGroup{
		"":               {Name: "g", Tasks: []*structs.Task{{Name: "quiet"}}},
		`task "filed"`:   {Name: "g", Tasks: []*structs.Task{{Name: "quiet"}, {Name: "filed", Identity: inFile}}},
		`task "named"`:   {Name: "g", Tasks: []*structs.Task{{Name: "named", Identities: others}}},
		`service "sold"`: {Name: "g", Services: []*structs.Service{{Name: "sold", Identity: other}}},
	}
	check := func(hasKey bool) {
		t.Helper()
		for want, g := range jobs {
			got := trust.Warning(s.db.Read(), &structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{g}})
			if (got != "") != (want != "" && !hasKey) || !hasKey && !strings.Contains(got, want) {
				t.Errorf("with a key %v: got %q, want %q", hasKey, got, want)
			}
		}
	}
	check(false)
	doKeys(s, trust.SigningKeyAdd, key("one", access.KeyEdDSA))
	check(true)
}

// The leader makes the signing keys soon after the root key.
func TestWarning_IsSilentWhileTheFirstSigningKeyIsMade(t *testing.T) {
	s := newKeyStore(t)
	task := &structs.Task{Name: "t", Identity: &structs.WorkloadIdentity{Name: structs.DefaultIdentity, File: true}}
	j := &structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{{Name: "g", Tasks: []*structs.Task{task}}}}
	if trust.Warning(s.db.Read(), j) == "" {
		t.Error("without an active root key there is no warning")
	}
	doKeys(s, func(tx *mvcc.WriteTx, k *cluster.RootKey) error {
		schema.RootKeys.Put(tx, k)
		return nil
	}, &cluster.RootKey{KeyID: "active", State: cluster.RootKeyActive})
	got := trust.Warning(s.db.Read(), j)
	if got != "" {
		t.Errorf("with an active root key: %s", got)
	}
}
