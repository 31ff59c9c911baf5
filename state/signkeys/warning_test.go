package signkeys_test

import (
	"strings"
	"testing"

	"berth/state/signkeys"
	"berth/structs"
	"berth/structs/identity"
)

func TestWarning_NamesThePartThatWaitsForAKey(t *testing.T) {
	s := newStore(t)
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
		for want, g := range jobs {
			got := signkeys.Warning(s.db.Read(), &structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{g}})
			if (got != "") != (want != "" && !hasKey) || !hasKey && !strings.Contains(got, want) {
				t.Errorf("with a key %v: got %q, want %q", hasKey, got, want)
			}
		}
	}
	check(false)
	do(s, signkeys.Add, key("one", identity.EdDSA))
	check(true)
}
