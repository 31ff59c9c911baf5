package csi_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"berth/fsm"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

const pathOfSecrets = "nomad/volumes/default/v"

// putVariable writes a variable with one item.
func (s *server) putVariable(path, item, value string) {
	s.T.Helper()
	text, err := json.Marshal(access.VariableItems{item: value})
	require.NoError(s.T, err)
	sealed, err := s.Keys.Seal(access.VariablePlace(structs.DefaultNamespace, path), text)
	require.NoError(s.T, err)
	mustPropose(s, fsm.VariablePut, &access.VariableChange{
		Namespace: structs.DefaultNamespace,
		Path:      path,
		Sealed:    sealed,
	})
}

func (s *server) purgeVariable(path string) {
	s.T.Helper()
	mustPropose(s, fsm.VariableDelete, &access.VariableChange{Namespace: structs.DefaultNamespace, Path: path})
}

// referringVolume is a volume to register, whose secrets are in a variable.
func referringVolume(path string) *structs.CSIVolume {
	v := testVolume("v")
	v.ExternalID = "ext-v"
	v.Secrets = nil
	v.SecretsFrom = path
	return v
}

// secretsServer is a server with a root key and a node, which records the password of the last volume to
// confirm.
func secretsServer(t *testing.T) (s *server, confirmed *string) {
	t.Helper()
	s = newServer(t)
	s.AddRootKey("k1")
	n := s.AddNode("n1", "a")
	confirmed = new(string)
	n.Answer = func(_ string, req, _ any) error {
		r, ok := req.(*nodecalls.ClientCSIValidateRequest)
		if ok {
			*confirmed = r.Secrets["password"]
		}
		return nil
	}
	return s, confirmed
}

func TestVolumeRegister_NeedsTheVariableOfItsSecrets(t *testing.T) {
	s, confirmed := secretsServer(t)
	for _, m := range []structs.Method[structs.CSIVolumeRegisterRequest, structs.CSIVolumeRegisterResponse]{
		structs.CSIVolumeRegister, structs.CSIVolumeCreate,
	} {
		given := referringVolume(pathOfSecrets)
		if m.Name == structs.CSIVolumeCreate.Name {
			given.ExternalID = ""
		}
		err := rejected(s, structs.KindPrecondition, m, registerRequest(given))
		require.ErrorContains(t, err, `the variable "nomad/volumes/default/v" of namespace "default", which does not `+
			`exist; to give it items: berth var put nomad/volumes/default/v NAME=@FILE`)
		require.Nil(t, s.row("v"))
	}
	rejected(s, structs.KindInvalid, structs.CSIVolumeRegister,
		registerRequest(referringVolume("nomad/volumes/prod/v")))
	s.putVariable(pathOfSecrets, "pass word", "x")
	err := rejected(s, structs.KindPrecondition, structs.CSIVolumeRegister,
		registerRequest(referringVolume(pathOfSecrets)))
	require.ErrorContains(t, err, "1 keys hold other characters")

	s.putVariable(pathOfSecrets, "password", canary)
	must(s, structs.CSIVolumeRegister, registerRequest(referringVolume(pathOfSecrets)))
	require.Equal(t, canary, *confirmed)
	require.Nil(t, s.row("v").Secrets)
	require.Nil(t, s.row("v").SealedSecrets)
	require.NotContains(t, s.Raft.Text(), canary)

	got := s.GetVolume("v")
	require.Equal(t, pathOfSecrets, got.SecretsFrom)
	require.Equal(t, pathOfSecrets, got.SecretsVariable)
	require.Empty(t, got.Warnings)
	s.purgeVariable(pathOfSecrets)
	require.Contains(t, s.GetVolume("v").Warnings[0], "berth var put")
	rejected(s, structs.KindPrecondition, structs.CSIVolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"})
	require.Equal(t, structs.VolumeReady, s.row("v").State)
}

// A node gets the present items with its claim, and waits with the reason while there are none.
func TestClaimGet_HasTheItemsOfTheVariable(t *testing.T) {
	s, _ := secretsServer(t)
	s.AddAlloc("a1", "n1")
	s.putVariable(pathOfSecrets, "password", canary)
	must(s, structs.CSIVolumeRegister, registerRequest(referringVolume(pathOfSecrets)))
	s.Claim("v", "a1", "n1")
	s.confirmAttach("v", "n1")
	ready := must(s, structs.CSIClaimGet, s.claimOf("v", "a1", "n1"))
	require.True(t, ready.Ready)
	require.Equal(t, structs.Secrets{"password": canary}, ready.Volume.Secrets)

	s.putVariable(pathOfSecrets, "password", "rotated")
	ready = must(s, structs.CSIClaimGet, s.claimOf("v", "a1", "n1"))
	require.Equal(t, structs.Secrets{"password": "rotated"}, ready.Volume.Secrets)

	s.purgeVariable(pathOfSecrets)
	waiting := must(s, structs.CSIClaimGet, s.claimOf("v", "a1", "n1"))
	require.False(t, waiting.Ready)
	require.Nil(t, waiting.Volume.Secrets)
	require.Contains(t, waiting.Blocked, "berth var put "+pathOfSecrets)

	// A write of the variable ends the wait of the node.
	resp := s.answerAfter(waiting, func() { s.putVariable(pathOfSecrets, "password", "third") })
	require.Equal(t, structs.Secrets{"password": "third"}, resp.Volume.Secrets)

	// Items that no plugin may get make it wait, too.
	s.putVariable(pathOfSecrets, "pass word", "x")
	waiting = must(s, structs.CSIClaimGet, s.claimOf("v", "a1", "n1"))
	require.False(t, waiting.Ready)
	require.Nil(t, waiting.Volume.Secrets)
	require.Contains(t, waiting.Blocked, "1 keys hold other characters")
	resp = s.answerAfter(waiting, func() { s.putVariable(pathOfSecrets, "password", "fourth") })
	require.Equal(t, structs.Secrets{"password": "fourth"}, resp.Volume.Secrets)
}

// answerAfter has the node of claim a1 on volume v wait from an answer that is not ready, makes a change, and
// returns the ready answer.
func (s *server) answerAfter(
	waiting *structs.CSIClaimGetResponse, change func(),
) *structs.CSIClaimGetResponse {
	s.T.Helper()
	blocking := s.claimOf("v", "a1", "n1")
	blocking.MinIndex = waiting.Index
	blocking.MaxWait = time.Minute
	answer := make(chan *structs.CSIClaimGetResponse, 1)
	go func() {
		resp, _ := rpc.Call(s.T.Context(), s.RPC, structs.CSIClaimGet, blocking)
		answer <- resp
	}()
	change()
	resp := <-answer
	require.True(s.T, resp.Ready)
	return resp
}

// The settings of a plugin name another variable, or none, while no request of the node waits.
func TestClaimGet_IsReadyAtOnceAfterAChangeBetweenTwoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := secretsServer(t)
		s.AddAlloc("a1", "n1")
		const other = "nomad/volumes/default/all"
		s.putVariable(other, "password", "of all")
		setPath := func(path string) {
			must(s, storage.PluginSettingsSet, &storage.PluginSettingsRequest{ID: "pl", SecretsFrom: path})
		}
		s.putVariable(pathOfSecrets, "password", canary)
		setPath(pathOfSecrets)
		must(s, structs.CSIVolumeRegister, registerRequest(referringVolume("")))
		s.Claim("v", "a1", "n1")
		s.confirmAttach("v", "n1")
		s.purgeVariable(pathOfSecrets)
		for path, want := range map[string]structs.Secrets{other: {"password": "of all"}, "": nil} {
			setPath(pathOfSecrets)
			waiting := must(s, structs.CSIClaimGet, s.claimOf("v", "a1", "n1"))
			require.False(t, waiting.Ready)
			setPath(path)
			blocking := s.claimOf("v", "a1", "n1")
			blocking.MinIndex = waiting.Index
			blocking.MaxWait = time.Minute
			start := time.Now()
			resp := must(s, structs.CSIClaimGet, blocking)
			require.Zero(t, time.Since(start), path)
			require.True(t, resp.Ready)
			require.Equal(t, want, resp.Volume.Secrets)
		}
	})
}

func TestVolumeRegister_ReplacesOneFormOfSecretsByTheOther(t *testing.T) {
	s, confirmed := secretsServer(t)
	s.putVariable(pathOfSecrets, "password", "of the variable")
	must(s, structs.CSIVolumeRegister, registerRequest(referringVolume(pathOfSecrets)))
	kept := referringVolume("")
	must(s, structs.CSIVolumeRegister, registerRequest(kept))
	require.Equal(t, pathOfSecrets, s.row("v").SecretsFrom)
	require.Equal(t, "of the variable", *confirmed)

	own := sealedVolume("v")
	must(s, structs.CSIVolumeRegister, registerRequest(own))
	require.Empty(t, s.row("v").SecretsFrom)
	require.NotNil(t, s.row("v").SealedSecrets)
	require.Equal(t, canary, *confirmed)

	must(s, structs.CSIVolumeRegister, registerRequest(referringVolume(pathOfSecrets)))
	require.Equal(t, pathOfSecrets, s.row("v").SecretsFrom)
	require.Nil(t, s.row("v").SealedSecrets)
	require.Equal(t, "of the variable", *confirmed)
}

// The path of a plugin counts for volumes without secrets of their own, each in its namespace.
func TestPluginConfig_NamesTheVariablesOfItsVolumes(t *testing.T) {
	s, confirmed := secretsServer(t)
	s.putVariable(pathOfSecrets, "password", "of the variable")
	must(s, structs.CSIVolumeRegister, registerRequest(sealedVolume("own")))
	setPath := func(path string) {
		must(s, storage.PluginSettingsSet, &storage.PluginSettingsRequest{ID: "pl", SecretsFrom: path})
	}
	setPath("nomad/volumes/{namespace}/{id}")
	must(s, structs.CSIVolumeRegister, registerRequest(referringVolume("")))
	require.Equal(t, "of the variable", *confirmed)
	require.Empty(t, s.row("v").SecretsFrom)
	require.Equal(t, pathOfSecrets, s.GetVolume("v").SecretsVariable)
	require.Empty(t, s.GetVolume("own").SecretsVariable)

	setPath("nomad/volumes/prod/all")
	err := rejected(s, structs.KindPrecondition, structs.CSIVolumeRegister, registerRequest(referringVolume("")))
	require.ErrorContains(t, err, `a volume of namespace "default" reads variables below nomad/volumes/default/`)
	setPath("")
	*confirmed = "x"
	must(s, structs.CSIVolumeRegister, registerRequest(referringVolume("")))
	require.Empty(t, *confirmed)
}

func TestJobPlan_WarnsOfAMissingVariableOfAVolume(t *testing.T) {
	s, _ := secretsServer(t)
	s.putVariable(pathOfSecrets, "password", canary)
	must(s, structs.CSIVolumeRegister, registerRequest(referringVolume(pathOfSecrets)))
	plan := func() string {
		return must(s, structs.JobPlan, &structs.JobPlanRequest{Job: testJob("j")}).Warnings
	}
	require.NotContains(t, plan(), "berth var put")
	s.purgeVariable(pathOfSecrets)
	require.Contains(t, plan(), "berth var put "+pathOfSecrets)
}
