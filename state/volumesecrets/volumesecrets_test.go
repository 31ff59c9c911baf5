package volumesecrets_test

import (
	"strings"
	"testing"

	"berth/state"
	"berth/state/schema"
	"berth/state/volumesecrets"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/storage"
)

// withPattern is a state in which the plugin p names a variable for each of its volumes. The variable of the
// volume "db" has items, that of "locked" only a lock.
func withPattern(t *testing.T) *state.ReadTx {
	t.Helper()
	s := state.New()
	err := s.Write(1, func(tx *state.WriteTx) error {
		schema.PluginConfigs.Put(tx, &storage.PluginSettings{
			ID: "p", SecretsFrom: "nomad/volumes/{namespace}/{id}",
		})
		schema.Variables.Put(tx, &access.Variable{
			Namespace: "default", Path: "nomad/volumes/default/db", Sealed: &structs.Sealed{KeyID: "k"},
		})
		schema.Variables.Put(tx, &access.Variable{Namespace: "default", Path: "nomad/volumes/default/locked"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.Read()
}

func TestPath_IsOfTheVolumeElseOfItsPlugin(t *testing.T) {
	tx := withPattern(t)
	for want, v := range map[string]*structs.CSIVolume{
		"nomad/volumes/default/db": {
			Namespace: "default", ID: "db",
			CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p"},
		},
		"nomad/volumes/default/mine": {
			Namespace: "default", ID: "db",
			CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", SecretsFrom: "nomad/volumes/default/mine"},
		},
		"": {
			Namespace: "default", ID: "db",
			CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", Secrets: structs.Secrets{"k": "v"}},
		},
	} {
		if got := volumesecrets.Path(tx, v); got != want {
			t.Errorf("got the path %q, want %q", got, want)
		}
	}
	other := &structs.CSIVolume{
		Namespace: "default", ID: "db",
		CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "other"},
	}
	if got := volumesecrets.Path(tx, other); got != "" {
		t.Errorf("a plugin without the setting: got the path %q", got)
	}
}

func TestVariable_NamesTheRemedy(t *testing.T) {
	tx := withPattern(t)
	for id, want := range map[string]string{
		"db":     "",
		"locked": "has no items",
		"gone":   "does not exist; to give it items: berth var put nomad/volumes/default/gone",
	} {
		v := &structs.CSIVolume{Namespace: "default", ID: id, CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p"}}
		row, err := volumesecrets.Variable(tx, v)
		if want == "" {
			if err != nil || row.Path != "nomad/volumes/default/db" {
				t.Errorf("%s: got the variable %+v and %v", id, row, err)
			}
			continue
		}
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a precondition with %q", id, err, want)
		}
	}
}

// Nobody gets the secrets of another namespace by the name of a volume.
func TestVariable_IsOfTheNamespaceOfTheVolume(t *testing.T) {
	v := &structs.CSIVolume{
		Namespace: "other", ID: "db",
		CSIVolumeSpec: structs.CSIVolumeSpec{SecretsFrom: "nomad/volumes/default/db"},
	}
	row, err := volumesecrets.Variable(withPattern(t), v)
	if row != nil || !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("got the variable %+v and %v", row, err)
	}
}
