package cluster_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/internal/keyring/keyringtest"
	loops "berth/server/control/cluster"
	"berth/server/control/loop"
	"berth/state"
	"berth/state/csi"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/oneserver"
)

// sealCluster is the log and the state of one server.
type sealCluster struct {
	t *testing.T
	*oneserver.Log
	keys *keyring.Ring
}

// newSealCluster has volumes with plain secrets, each attached to a node.
func newSealCluster(t *testing.T, volumes int) *sealCluster {
	c := &sealCluster{t, oneserver.NewLog(), &keyring.Ring{}}
	for i := range volumes {
		id := fmt.Sprintf("v%03d", i)
		c.putVolume(id)
		found := []*structs.CSIAttachment{{
			Namespace:      structs.DefaultNamespace,
			VolumeID:       id,
			NodeID:         "n1",
			ExternalNodeID: "ext-n1",
		}}
		oneserver.Put(t, c, fsm.AttachmentsFound, &structs.CSIAttachmentsFound{Attachments: found})
	}
	return c
}

// putVolume stores a volume with a plain secret.
func (c *sealCluster) putVolume(id string) {
	c.t.Helper()
	oneserver.Put(c.t, c, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes: []*structs.CSIVolume{{
			ID: id, Namespace: structs.DefaultNamespace,
			CSIVolumeSpec: structs.CSIVolumeSpec{
				PluginID:   "p",
				ExternalID: "ext-" + id,
				Secrets:    structs.Secrets{"k": "secret of " + id},
			},
		}},
	})
}

func (c *sealCluster) loop() loops.SealLoop {
	return loops.SealLoop{Common: loop.Common{
		Store: c.Store, Proposer: c, Keys: c.keys, Logger: hclog.NewNullLogger(),
	}}
}

func (c *sealCluster) addKey() {
	c.t.Helper()
	oneserver.Put(c.t, c, fsm.RootKeyAdd, keyringtest.Row("k1"))
	keyringtest.Use(c.t, c.keys, "k1")
}

func (c *sealCluster) plainRows() int {
	tx := c.Store.Read()
	volumes := slices.Collect(trust.PlainVolumes(tx))
	attachments := slices.Collect(trust.PlainAttachments(tx))
	return len(volumes) + len(attachments)
}

func TestLoop_SealsEveryRowInBoundedEntries(t *testing.T) {
	const volumes = cluster.MaxSealedRows + 10
	c := newSealCluster(t, volumes)
	require.Equal(t, 2*volumes, c.plainRows())
	before := c.Len()
	require.NoError(t, c.loop().Step(t.Context()))
	require.Equal(t, before, c.Len(), "there is no key")

	c.addKey()
	before = c.Len()
	require.NoError(t, c.loop().Step(t.Context()))
	require.Zero(t, c.plainRows())
	var commands []string
	for _, entry := range c.Entries()[before:] {
		commands = append(commands, fsm.CommandOf(entry).Name)
		require.Less(t, len(entry), cluster.MaxSealedRows*400)
	}
	require.Equal(t, []string{"SecretsSeal", "SecretsSeal", "SecretsSeal", "SecretsSealed"}, commands)
	tx := c.Store.Read()
	mark := trust.SecretsMark(tx)
	require.Equal(t, c.Index(), mark.ModifyIndex)
	for i := range volumes {
		v := csi.Volume(tx, structs.DefaultNamespace, fmt.Sprintf("v%03d", i))
		opened, err := keyring.OpenVolume(c.keys, v)
		require.NoError(t, err)
		require.Equal(t, "secret of "+v.ID, opened.Secrets["k"])
		a, err := keyring.OpenAttachment(c.keys, csi.Attachment(tx, v.Namespace, v.ID, "n1"))
		require.NoError(t, err)
		require.Equal(t, "secret of "+v.ID, a.Secrets["k"])
	}
	require.Empty(t, state.Check(tx))

	before = c.Len()
	require.NoError(t, c.loop().Step(t.Context()))
	require.Equal(t, before, c.Len(), "there is nothing to do")
}

// A new leader has the rows alone to know how far the former one was.
func TestLoop_GoesOnAfterAFailure(t *testing.T) {
	c := newSealCluster(t, 2)
	c.addKey()
	c.Fail(errors.New("no leader"))
	require.Error(t, c.loop().Step(t.Context()))
	c.Fail(nil)
	require.NoError(t, c.loop().Step(t.Context()))
	require.Zero(t, c.plainRows())
}

// A restored archive brings plain secrets back, and the log has them then.
func TestLoop_PutsANewMarkAfterLaterPlainSecrets(t *testing.T) {
	c := newSealCluster(t, 1)
	c.addKey()
	require.NoError(t, c.loop().Step(t.Context()))
	first := trust.SecretsMark(c.Store.Read()).ModifyIndex
	c.putVolume("late")
	require.NoError(t, c.loop().Step(t.Context()))
	require.Zero(t, c.plainRows())
	require.Greater(t, trust.SecretsMark(c.Store.Read()).ModifyIndex, first+1)
}
