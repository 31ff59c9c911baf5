package csi_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/internal/keyring"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

// canary is a secret that no log and no row may have.
const canary = "c4n4ry-of-the-volume"

// sealedVolume is a volume to register, whose secret is the canary.
func sealedVolume(id string) *structs.CSIVolume {
	v := endpointstest.Volume(id)
	v.ExternalID = "ext-" + id
	v.Secrets = structs.Secrets{"password": canary}
	return v
}

func volumeRow(s *endpointstest.Server, id string) *structs.CSIVolume {
	return csi.Volume(s.Store.Read(), "default", id)
}

func claimOf(s *endpointstest.Server, volume, alloc, node string) *structs.CSIClaimGetRequest {
	return &structs.CSIClaimGetRequest{
		VolumeID: volume,
		AllocID:  alloc,
		NodeID:   node,
		SecretID: endpointstest.SecretOf(node),
	}
}

func TestVolumeRegister_SealsItsSecretsBeforeTheLog(t *testing.T) {
	s := endpointstest.New(t)
	s.AddRootKey("k1")
	n := s.AddNode("n1", "a")
	confirmed := ""
	n.Answer = func(_ string, req, _ any) error {
		if r, validates := req.(*nodecalls.ClientCSIValidateRequest); validates { // it lists volumes, too
			confirmed = r.Secrets["password"]
		}
		return nil
	}
	s.AddAlloc("a1", "n1")
	s.AddAlloc("a2", "n1")
	resp := endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(sealedVolume("v")))
	require.Empty(t, resp.Warnings)
	require.Nil(t, resp.Volumes[0].SealedSecrets)
	require.Equal(t, canary, confirmed)
	require.Nil(t, volumeRow(s, "v").Secrets)
	require.Equal(t, "k1", volumeRow(s, "v").SealedSecrets.KeyID)

	// Puts back the answer of a read.
	got := s.GetVolume("v").CSIVolume
	require.Nil(t, got.SealedSecrets)
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(&got))
	require.Equal(t, canary, confirmed)

	s.Claim("v", "a1", "n1")
	s.Claim("v", "a2", "n1")
	waiting := endpointstest.Must(s, structs.CSIClaimGet, claimOf(s, "v", "a1", "n1"))
	require.False(t, waiting.Ready)
	require.Nil(t, waiting.Volume.Secrets)
	require.Nil(t, waiting.Volume.SealedSecrets)
	confirmAttach(s, "v", "n1")
	ready := endpointstest.Must(s, structs.CSIClaimGet, claimOf(s, "v", "a1", "n1"))
	require.True(t, ready.Ready)
	require.Equal(t, structs.Secrets{"password": canary}, ready.Volume.Secrets)
	require.Nil(t, ready.Volume.SealedSecrets)
	require.Nil(t, ready.Attachment.Secrets)
	require.Nil(t, ready.Attachment.SealedSecrets)
	a := csi.Attachment(s.Store.Read(), "default", "v", "n1")
	require.Equal(t, volumeRow(s, "v").SealedSecrets, a.SealedSecrets)

	require.NotContains(t, s.Raft.Text(), canary)
}

func TestVolumeRegister_KeepsTheRowForEqualSecrets(t *testing.T) {
	s := endpointstest.New(t)
	s.AddRootKey("k1")
	s.AddNode("n1", "a")
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(sealedVolume("v")))
	before := volumeRow(s, "v")
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(sealedVolume("v")))
	require.Same(t, before, volumeRow(s, "v"))

	other := sealedVolume("v")
	other.Secrets = structs.Secrets{"password": "another"}
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(other))
	opened, err := keyring.OpenVolume(s.Keys, volumeRow(s, "v"))
	require.NoError(t, err)
	require.Equal(t, structs.Secrets{"password": "another"}, opened.Secrets)
}

func TestVolumeRegister_DropsSealedSecretsOfAClient(t *testing.T) {
	s := endpointstest.New(t)
	s.AddRootKey("k1")
	s.AddNode("n1", "a")
	given := sealedVolume("v")
	given.Secrets = nil
	given.SealedSecrets = &structs.Sealed{KeyID: "k1", Data: []byte("x")}
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(given))
	require.Nil(t, volumeRow(s, "v").SealedSecrets)
}

func TestVolumeRegister_WarnsOfSecretsWithoutARootKey(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	resp := endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(sealedVolume("v")))
	require.Equal(t, keyring.SealWarning, resp.Warnings)
	require.Equal(t, canary, volumeRow(s, "v").Secrets["password"])

	bare := sealedVolume("bare")
	bare.Secrets = nil
	resp = endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(bare))
	require.Empty(t, resp.Warnings)
}

func TestClaimGet_WaitsForTheRootKeyOfTheSecrets(t *testing.T) {
	s := endpointstest.New(t)
	s.AddRootKey("k1")
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(sealedVolume("v")))
	s.Claim("v", "a1", "n1")
	confirmAttach(s, "v", "n1")
	s.Keys.Remove("k1")
	// The kind lets the node ask again.
	err := endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIClaimGet, claimOf(s, "v", "a1", "n1"))
	require.ErrorContains(t, err, "root key k1")
}

func TestVolumeDelete_SealsItsSecretsBeforeTheLog(t *testing.T) {
	s := endpointstest.New(t)
	s.AddRootKey("k1")
	s.Settings.VolumeTimeout = time.Millisecond
	s.AddNode("n1", "a")
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(sealedVolume("v")))
	stored := volumeRow(s, "v").SealedSecrets
	endpointstest.Rejected(s, structs.KindTimeout, structs.CSIVolumeDelete, &structs.CSIVolumeDeleteRequest{
		ID:      "v",
		Secrets: structs.Secrets{"password": canary + "-2"},
	})
	row := volumeRow(s, "v")
	require.Equal(t, stored, row.Deletion.SealedSecrets)
	opened, err := keyring.OpenVolume(s.Keys, row)
	require.NoError(t, err)
	require.Equal(t, structs.Secrets{"password": canary + "-2"}, opened.Secrets)
	require.NotContains(t, s.Raft.Text(), canary)

	// A deletion that fails for good gives the volume its own secrets back.
	endpointstest.MustPropose(s, fsm.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:    "v",
		Op:    "delete",
		Err:   &structs.OperationError{Kind: structs.KindInvalid, Message: "no"},
		Final: true,
	})
	require.Equal(t, stored, volumeRow(s, "v").SealedSecrets)
	require.Nil(t, volumeRow(s, "v").Secrets)
}

// closeRootKey makes the server lead without its root key, as after the loss of the key-encryption key.
func closeRootKey(s *endpointstest.Server, id string) {
	s.AddRootKey(id)
	s.Keys.Remove(id)
}

// rejectsSecrets checks that a register, a create and a delete with secrets fail with a kind, and that
// nothing of them enters the log.
func rejectsSecrets(s *endpointstest.Server, kind structs.Kind, text string) {
	s.T.Helper()
	s.Settings.VolumeTimeout = time.Millisecond // an accepted request waits for no plugin
	withSecrets := structs.Secrets{"password": canary}
	created := endpointstest.Volume("new")
	created.Secrets = withSecrets
	before := s.Raft.Len()
	for name, err := range map[string]error{
		"register": endpointstest.Rejected(s, kind, structs.CSIVolumeRegister,
			endpointstest.RegisterRequest(sealedVolume("v"))),
		"create": endpointstest.Rejected(s, kind, structs.CSIVolumeCreate,
			endpointstest.RegisterRequest(created)),
		"delete": endpointstest.Rejected(s, kind, structs.CSIVolumeDelete,
			&structs.CSIVolumeDeleteRequest{ID: "bare", Secrets: withSecrets}),
	} {
		require.ErrorContains(s.T, err, text, name)
	}
	require.Equal(s.T, before, s.Raft.Len())
	require.NotContains(s.T, s.Raft.Text(), canary)
}

func TestVolumeSecrets_WaitForTheRootKeyOfTheLeader(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddVolume("bare")
	closeRootKey(s, "k1")
	rejectsSecrets(s, structs.KindUnavailable, "root key k1")

	plain := sealedVolume("plain")
	plain.Secrets = nil
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(plain))
}

func TestVolumeSecrets_NeedARootKeyWhereTLSIsRequired(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddVolume("bare")
	s.Roles = true
	rejectsSecrets(s, structs.KindPrecondition, "berth operator root keyring init")
}
