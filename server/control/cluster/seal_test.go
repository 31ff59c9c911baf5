package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/internal/keyring/keyringtest"
	loops "berth/server/control/cluster"
	"berth/state"
	"berth/state/csi"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// sealCluster is the log and the state of one server.
type sealCluster struct {
	t       *testing.T
	store   *state.Store
	fsm     *fsm.FSM
	index   uint64
	entries []string // the names of the commands
	largest int
	fail    error // of every proposal
	keys    *keyring.Ring
}

// Propose implements fsm.Proposer.
func (c *sealCluster) Propose(_ context.Context, entry []byte) (uint64, any, error) {
	if c.fail != nil {
		return 0, nil, c.fail
	}
	c.index++
	c.entries = append(c.entries, fsm.CommandOf(entry).Name)
	c.largest = max(c.largest, len(entry))
	return c.index, c.fsm.Apply(&raft.Log{Index: c.index, Type: raft.LogCommand, Data: entry}), nil
}

// newSealCluster has volumes with plain secrets, each attached to a node.
func newSealCluster(t *testing.T, volumes int) *sealCluster {
	store := state.New()
	c := &sealCluster{t: t, store: store, fsm: fsm.New(store), index: 100, keys: &keyring.Ring{}}
	for i := range volumes {
		id := fmt.Sprintf("v%03d", i)
		c.putVolume(id)
		found := &structs.CSIAttachmentsFound{Attachments: []*structs.CSIAttachment{{
			Namespace:      structs.DefaultNamespace,
			VolumeID:       id,
			NodeID:         "n1",
			ExternalNodeID: "ext-n1",
		}}}
		_, err := fsm.Propose(t.Context(), c, fsm.AttachmentsFound, found)
		require.NoError(t, err)
	}
	c.entries = nil
	c.largest = 0
	return c
}

// putVolume stores a volume with a plain secret.
func (c *sealCluster) putVolume(id string) {
	c.t.Helper()
	_, err := fsm.Propose(c.t.Context(), c, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes: []*structs.CSIVolume{{
			ID:         id,
			Namespace:  structs.DefaultNamespace,
			PluginID:   "p",
			ExternalID: "ext-" + id,
			Secrets:    structs.Secrets{"k": "secret of " + id},
		}},
	})
	require.NoError(c.t, err)
}

func (c *sealCluster) loop() loops.SealLoop {
	return loops.SealLoop{Store: c.store, Proposer: c, Keys: c.keys, Logger: hclog.NewNullLogger()}
}

func (c *sealCluster) addKey() {
	c.t.Helper()
	before := c.entries
	_, err := fsm.Propose(c.t.Context(), c, fsm.RootKeyAdd, keyringtest.Row("k1"))
	require.NoError(c.t, err)
	c.entries = before
	keyringtest.Use(c.t, c.keys, "k1")
}

func (c *sealCluster) plainRows() int {
	tx := c.store.Read()
	volumes := slices.Collect(trust.PlainVolumes(tx))
	attachments := slices.Collect(trust.PlainAttachments(tx))
	return len(volumes) + len(attachments)
}

func TestLoop_SealsEveryRowInBoundedEntries(t *testing.T) {
	const volumes = cluster.MaxSealedRows + 10
	c := newSealCluster(t, volumes)
	require.Equal(t, 2*volumes, c.plainRows())
	require.NoError(t, c.loop().Step(t.Context()))
	require.Empty(t, c.entries, "there is no key")

	c.addKey()
	require.NoError(t, c.loop().Step(t.Context()))
	require.Zero(t, c.plainRows())
	require.Equal(t, []string{"SecretsSeal", "SecretsSeal", "SecretsSeal", "SecretsSealed"}, c.entries)
	require.Less(t, c.largest, cluster.MaxSealedRows*400)
	tx := c.store.Read()
	mark := trust.SecretsMark(tx)
	require.Equal(t, c.index, mark.ModifyIndex)
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

	c.entries = nil
	require.NoError(t, c.loop().Step(t.Context()))
	require.Empty(t, c.entries, "there is nothing to do")
}

// A new leader has the rows alone to know how far the former one was.
func TestLoop_GoesOnAfterAFailure(t *testing.T) {
	c := newSealCluster(t, 2)
	c.addKey()
	c.fail = errors.New("no leader")
	require.Error(t, c.loop().Step(t.Context()))
	c.fail = nil
	require.NoError(t, c.loop().Step(t.Context()))
	require.Zero(t, c.plainRows())
}

// A restored archive brings plain secrets back, and the log has them then.
func TestLoop_PutsANewMarkAfterLaterPlainSecrets(t *testing.T) {
	c := newSealCluster(t, 1)
	c.addKey()
	require.NoError(t, c.loop().Step(t.Context()))
	first := trust.SecretsMark(c.store.Read()).ModifyIndex
	c.putVolume("late")
	require.NoError(t, c.loop().Step(t.Context()))
	require.Zero(t, c.plainRows())
	require.Greater(t, trust.SecretsMark(c.store.Read()).ModifyIndex, first+1)
}
