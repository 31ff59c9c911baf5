package cluster_test

import (
	"testing"

	"berth/internal/keyring/keyringtest"
	"berth/server"
	"berth/structs"
	rows "berth/structs/cluster"
	"berth/test/cluster"
)

// rootKeys lists the root keys, as the leader shows them.
func rootKeys(c *cluster.Cluster) []*rows.RootKeyMeta {
	return cluster.Must(c, c.Leader(), rows.KeyringList, &structs.QueryRequest{}).Keys
}

// awaitRootKeys waits until there are keys with some states, in any order, and all servers have opened them.
func awaitRootKeys(c *cluster.Cluster, active, inactive int) {
	c.T.Helper()
	c.Await("all servers have opened the root keys", func() bool {
		found := map[string]int{}
		for _, k := range rootKeys(c) {
			found[k.State]++
			if len(k.Closed) > 0 {
				return false
			}
		}
		return found[rows.RootKeyActive] == active && found[rows.RootKeyInactive] == inactive &&
			found[rows.RootKeyRekeying] == 0
	})
}

func TestKeyring_ARotationGoesOnWithANewLeader(t *testing.T) {
	t.Parallel()
	file := keyringtest.NewFile(t)
	// An election in the wrong moment would leave the outcome of the rotation unknown: another would follow it.
	c := cluster.New(t, 3, rareElections, func(cfg *server.Config) { cfg.Keyring.File = file })
	awaitRootKeys(c, 1, 0)
	first := rootKeys(c)[0]

	leader := c.Leader()
	made := cluster.Must(c, leader, rows.KeyringRotate, &rows.KeyringRotateRequest{Full: true})
	if made.Key.State != rows.RootKeyActive || made.Key.KeyID == first.KeyID {
		t.Errorf("got %+v", made.Key)
	}
	kill(t, leader)
	c.Elect(c.Others(leader)[0])
	c.Leader(c.Others(leader)...)
	awaitRootKeys(c, 1, 1)
	c.Restart(leader)

	cluster.Must(c, c.Leader(), rows.KeyringDelete, &rows.RootKeyRemoveRequest{KeyID: first.KeyID})
	awaitRootKeys(c, 1, 0)
	if got := rootKeys(c)[0].KeyID; got != made.Key.KeyID {
		t.Errorf("key %s is left, want %s", got, made.Key.KeyID)
	}
}
