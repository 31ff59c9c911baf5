package csi_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	v := testVolume(id)
	v.ExternalID = "ext-" + id
	v.Secrets = structs.Secrets{"password": canary}
	return v
}

func (s *server) row(id string) *structs.CSIVolume {
	return csi.Volume(s.Store.Read(), "default", id)
}

func (s *server) claimOf(volume, alloc, node string) *structs.CSIClaimGetRequest {
	return &structs.CSIClaimGetRequest{
		VolumeID: volume,
		AllocID:  alloc,
		NodeID:   node,
		SecretID: secretOf(node),
	}
}

func TestVolumeRegister_SealsItsSecretsBeforeTheLog(t *testing.T) {
	s := newServer(t)
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
	resp := must(s, structs.CSIVolumeRegister, registerRequest(sealedVolume("v")))
	require.Empty(t, resp.Warnings)
	require.Nil(t, resp.Volumes[0].SealedSecrets)
	require.Equal(t, canary, confirmed)
	require.Nil(t, s.row("v").Secrets)
	require.Equal(t, "k1", s.row("v").SealedSecrets.KeyID)

	// Puts back the answer of a read.
	got := s.GetVolume("v").CSIVolume
	require.Nil(t, got.SealedSecrets)
	must(s, structs.CSIVolumeRegister, registerRequest(&got))
	require.Equal(t, canary, confirmed)

	s.Claim("v", "a1", "n1")
	s.Claim("v", "a2", "n1")
	waiting := must(s, structs.CSIClaimGet, s.claimOf("v", "a1", "n1"))
	require.False(t, waiting.Ready)
	require.Nil(t, waiting.Volume.Secrets)
	require.Nil(t, waiting.Volume.SealedSecrets)
	s.confirmAttach("v", "n1")
	ready := must(s, structs.CSIClaimGet, s.claimOf("v", "a1", "n1"))
	require.True(t, ready.Ready)
	require.Equal(t, structs.Secrets{"password": canary}, ready.Volume.Secrets)
	require.Nil(t, ready.Volume.SealedSecrets)
	require.Nil(t, ready.Attachment.Secrets)
	require.Nil(t, ready.Attachment.SealedSecrets)
	a := csi.Attachment(s.Store.Read(), "default", "v", "n1")
	require.Equal(t, s.row("v").SealedSecrets, a.SealedSecrets)

	require.NotContains(t, s.Raft.Text(), canary)
}

func TestVolumeRegister_KeepsTheRowForEqualSecrets(t *testing.T) {
	s := newServer(t)
	s.AddRootKey("k1")
	s.AddNode("n1", "a")
	must(s, structs.CSIVolumeRegister, registerRequest(sealedVolume("v")))
	before := s.row("v")
	must(s, structs.CSIVolumeRegister, registerRequest(sealedVolume("v")))
	require.Same(t, before, s.row("v"))

	other := sealedVolume("v")
	other.Secrets = structs.Secrets{"password": "another"}
	must(s, structs.CSIVolumeRegister, registerRequest(other))
	opened, err := keyring.OpenVolume(s.Keys, s.row("v"))
	require.NoError(t, err)
	require.Equal(t, structs.Secrets{"password": "another"}, opened.Secrets)
}

func TestVolumeRegister_DropsSealedSecretsOfAClient(t *testing.T) {
	s := newServer(t)
	s.AddRootKey("k1")
	s.AddNode("n1", "a")
	given := sealedVolume("v")
	given.Secrets = nil
	given.SealedSecrets = &structs.Sealed{KeyID: "k1", Data: []byte("x")}
	must(s, structs.CSIVolumeRegister, registerRequest(given))
	require.Nil(t, s.row("v").SealedSecrets)
}

func TestVolumeRegister_WarnsOfSecretsWithoutARootKey(t *testing.T) {
	s := newServer(t)
	s.AddNode("n1", "a")
	resp := must(s, structs.CSIVolumeRegister, registerRequest(sealedVolume("v")))
	require.Equal(t, keyring.SealWarning, resp.Warnings)
	require.Equal(t, canary, s.row("v").Secrets["password"])

	bare := sealedVolume("bare")
	bare.Secrets = nil
	resp = must(s, structs.CSIVolumeRegister, registerRequest(bare))
	require.Empty(t, resp.Warnings)
}

func TestClaimGet_WaitsForTheRootKeyOfTheSecrets(t *testing.T) {
	s := newServer(t)
	s.AddRootKey("k1")
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	must(s, structs.CSIVolumeRegister, registerRequest(sealedVolume("v")))
	s.Claim("v", "a1", "n1")
	s.confirmAttach("v", "n1")
	s.Keys.Remove("k1")
	// The kind lets the node ask again.
	err := rejected(s, structs.KindUnavailable, structs.CSIClaimGet, s.claimOf("v", "a1", "n1"))
	require.ErrorContains(t, err, "root key k1")
}

func TestVolumeDelete_SealsItsSecretsBeforeTheLog(t *testing.T) {
	s := newServer(t)
	s.AddRootKey("k1")
	s.Settings.VolumeTimeout = time.Millisecond
	s.AddNode("n1", "a")
	must(s, structs.CSIVolumeRegister, registerRequest(sealedVolume("v")))
	stored := s.row("v").SealedSecrets
	rejected(s, structs.KindTimeout, structs.CSIVolumeDelete, &structs.CSIVolumeDeleteRequest{
		ID:      "v",
		Secrets: structs.Secrets{"password": canary + "-2"},
	})
	row := s.row("v")
	require.Equal(t, stored, row.Deletion.SealedSecrets)
	opened, err := keyring.OpenVolume(s.Keys, row)
	require.NoError(t, err)
	require.Equal(t, structs.Secrets{"password": canary + "-2"}, opened.Secrets)
	require.NotContains(t, s.Raft.Text(), canary)

	// A deletion that fails for good gives the volume its own secrets back.
	mustPropose(s, fsm.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:    "v",
		Op:    "delete",
		Err:   &structs.OperationError{Kind: structs.KindInvalid, Message: "no"},
		Final: true,
	})
	require.Equal(t, stored, s.row("v").SealedSecrets)
	require.Nil(t, s.row("v").Secrets)
}

// closeRootKey makes the server lead without its root key, as after the loss of the key-encryption key.
func (s *server) closeRootKey(id string) {
	s.AddRootKey(id)
	s.Keys.Remove(id)
}

// rejectsSecrets checks that a register, a create and a delete with secrets fail with a kind, and that
// nothing of them enters the log.
func (s *server) rejectsSecrets(kind structs.Kind, text string) {
	s.T.Helper()
	s.Settings.VolumeTimeout = time.Millisecond // an accepted request waits for no plugin
	withSecrets := structs.Secrets{"password": canary}
	created := testVolume("new")
	created.Secrets = withSecrets
	before := s.Raft.Len()
	for name, err := range map[string]error{
		"register": rejected(s, kind, structs.CSIVolumeRegister, registerRequest(sealedVolume("v"))),
		"create":   rejected(s, kind, structs.CSIVolumeCreate, registerRequest(created)),
		"delete": rejected(s, kind, structs.CSIVolumeDelete,
			&structs.CSIVolumeDeleteRequest{ID: "bare", Secrets: withSecrets}),
	} {
		require.ErrorContains(s.T, err, text, name)
	}
	require.Equal(s.T, before, s.Raft.Len())
	require.NotContains(s.T, s.Raft.Text(), canary)
}

func TestVolumeSecrets_WaitForTheRootKeyOfTheLeader(t *testing.T) {
	s := newServer(t)
	s.AddNode("n1", "a")
	s.AddVolume("bare")
	s.closeRootKey("k1")
	s.rejectsSecrets(structs.KindUnavailable, "root key k1")

	plain := sealedVolume("plain")
	plain.Secrets = nil
	must(s, structs.CSIVolumeRegister, registerRequest(plain))
}

func TestVolumeSecrets_NeedARootKeyWhereTLSIsRequired(t *testing.T) {
	s := newServer(t)
	s.AddNode("n1", "a")
	s.AddVolume("bare")
	s.Roles = true
	s.rejectsSecrets(structs.KindPrecondition, "berth operator root keyring init")
}
