package csi

import (
	"fmt"
	"strings"
	"testing"

	"berth/endpoints/core"
	"berth/internal/keyring"
	"berth/internal/mvcc"
	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// newSnapshotGroups returns procedures over a state with ready volumes of two plugins, of which the second
// one takes no groups.
func newSnapshotGroups(t *testing.T) SnapshotGroups {
	t.Helper()
	s := state.New()
	err := s.Write(1, func(tx *mvcc.WriteTx) error {
		for id, plugin := range map[string]string{"v": "p", "w": "p", "other": "q", "young": "p"} {
			v := &structs.CSIVolume{
				Namespace: "default", ID: id,
				CSIVolumeSpec: structs.CSIVolumeSpec{
					PluginID:    plugin,
					ExternalID:  "ext-" + id,
					SecretsFrom: "secrets/" + id,
				},
				CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady},
			}
			if id == "young" {
				v.State = structs.VolumeCreating
			}
			schema.Volumes.Put(tx, v)
		}
		schema.Instances.Put(tx, &structs.CSIPluginInstance{
			NodeID: "n",
			Kind:   structs.CSIKindController,
			CSIInfo: structs.CSIInfo{
				PluginID:       "q",
				Healthy:        true,
				ControllerInfo: &structs.CSIControllerInfo{SupportsCreateDeleteSnapshot: true},
			},
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return SnapshotGroups{&core.Server{Deps: core.Deps{Store: s, Keys: &keyring.Ring{}}}}
}

func request(volumes ...string) *storage.SnapshotGroupCreateRequest {
	return &storage.SnapshotGroupCreateRequest{
		GroupName:    "g",
		VolumeIDs:    volumes,
		WriteOptions: structs.WriteOptions{Namespace: "default"},
	}
}

func TestCreate_RecordsOneMemberForEachVolume(t *testing.T) {
	p := newSnapshotGroups(t)
	req := request("w", "v")
	req.Parameters = map[string]string{"k": "v"}
	entry, err := p.entryOf(p.Store.Read(), req)
	if err != nil {
		t.Fatal(err)
	}
	if g := entry.Group; g.PluginID != "p" || g.ID == "" || strings.Join(g.VolumeIDs, " ") != "w v" ||
		g.Parameters["k"] != "v" {
		t.Errorf("the group is %+v", g)
	}
	first, second := entry.Members[0], entry.Members[1]
	if first.Name != "g-w" || first.SourceExternalID != "ext-w" || first.SecretsFrom != "secrets/w" ||
		second.Name != "g-v" || second.SecretsFrom != "" || second.Group != "g" {
		t.Errorf("the members are %+v and %+v", first, second)
	}
}

func TestCreate_RejectsWhatNoPluginCanTake(t *testing.T) {
	p := newSnapshotGroups(t)
	many := request()
	for i := range storage.MaxGroupMembers + 1 {
		many.VolumeIDs = append(many.VolumeIDs, fmt.Sprint("v", i))
	}
	long := request("v")
	long.GroupName = strings.Repeat("g", 127)
	secret := request("v")
	secret.Secrets = structs.Secrets{"k": "swordfish"}
	for want, req := range map[string]*storage.SnapshotGroupCreateRequest{
		"0 volumes are given; expected 1 to 64":                request(),
		"65 volumes are given; expected 1 to 64":               many,
		`volume "v" is given twice`:                            request("v", "v"),
		"at most 128 are allowed; give the group a shorter":    long,
		`no volume "none" in namespace "default"`:              request("v", "none"),
		`volume "young" is creating; only a ready one`:         request("v", "young"),
		`volume "v" is of plugin "p", and volume "other" of`:   request("v", "other"),
		`plugin "q" takes no group snapshots; take a snapshot`: request("other"),
		"the cluster has no root key":                          secret,
	} {
		_, err := p.entryOf(p.Store.Read(), req)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "swordfish") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Node-local storage has a controller on each node, and the call for a group goes to one.
func TestCreate_RejectsVolumesThatNoOneControllerReaches(t *testing.T) {
	s := state.New()
	halfDown(t, s)
	volume := func(id string, nodes ...string) *structs.CSIVolume {
		v := &structs.CSIVolume{Namespace: "default", ID: id, CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p"}}
		for _, node := range nodes {
			v.Topologies = append(v.Topologies, &structs.CSITopology{Segments: map[string]string{"node": node}})
		}
		return v
	}
	away := volume("away", "n2") // its controller may come back
	for _, volumes := range [][]*structs.CSIVolume{
		{volume("a", "n1"), volume("b", "n1", "n2")}, {volume("a", "n1"), volume("b")}, {volume("a", "n1"), away},
	} {
		err := checkGroupPlaces(s.Read(), volumes)
		if err != nil {
			t.Errorf("%s and %s: %v", volumes[0].ID, volumes[1].ID, err)
		}
	}

	err := s.Write(9, func(tx *mvcc.WriteTx) error {
		i := new(*csi.Instance(tx, "p", structs.CSIKindController, "n2"))
		i.Healthy = true
		schema.Instances.Put(tx, i)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = checkGroupPlaces(s.Read(), []*structs.CSIVolume{volume("a", "n1"), volume("b"), away})
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), `"a" and "away"`) {
		t.Errorf("got %v", err)
	}
}

// The error of a plugin comes with the remedy that the specification has for it.
func TestDuty_L5_L6_L8_AFailedGroupNamesTheRemedy(t *testing.T) {
	g := object[*storage.GroupSnapshot]{kind: storage.KindGroup, name: "g"}
	for code, want := range map[string]string{
		"AlreadyExists":          "under another name",
		"FailedPrecondition":     "change their configuration",
		structs.CSICodeExhausted: "free space at the storage",
		"Internal":               "no words",
	} {
		_, err := g.isTaken(&storage.Progress{
			State:     storage.SnapshotFailed,
			Reason:    "no words",
			LastError: &structs.OperationError{Code: code, Kind: structs.KindConflict},
		})
		if err == nil || !strings.Contains(err.Error(), want) || structs.KindOf(err) != structs.KindConflict {
			t.Errorf("%s: got %v, want %q", code, err, want)
		}
	}
	done, err := g.isTaken(&storage.Progress{State: storage.SnapshotPending})
	if done || err != nil {
		t.Errorf("pending: %v, %v", done, err)
	}
	_, err = newSnapshotGroups(t).object("default", "g").awaitTaken(t.Context())
	if !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("deleted: %v", err)
	}
}
