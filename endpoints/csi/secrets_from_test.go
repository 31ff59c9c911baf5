package csi_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

const pathOfSecrets = "nomad/volumes/default/v"

// putVariable writes a variable with one item.
func putVariable(s *endpointstest.Server, path, item, value string) {
	s.T.Helper()
	text, err := json.Marshal(access.VariableItems{item: value})
	require.NoError(s.T, err)
	sealed, err := s.Keys.Seal(access.VariablePlace(structs.DefaultNamespace, path), text)
	require.NoError(s.T, err)
	endpointstest.MustPropose(s, fsm.VariablePut, &access.VariableChange{
		Namespace: structs.DefaultNamespace,
		Path:      path,
		Sealed:    sealed,
	})
}

func purgeVariable(s *endpointstest.Server, path string) {
	s.T.Helper()
	endpointstest.MustPropose(s, fsm.VariableDelete,
		&access.VariableChange{Namespace: structs.DefaultNamespace, Path: path})
}

// referringVolume is a volume to register, whose secrets are in a variable.
func referringVolume(path string) *structs.CSIVolume {
	v := endpointstest.Volume("v")
	v.ExternalID = "ext-v"
	v.Secrets = nil
	v.SecretsFrom = path
	return v
}

// secretsServer is a server with a root key and a node, which records the password of the last volume to
// confirm.
func secretsServer(t *testing.T) (s *endpointstest.Server, confirmed *string) {
	t.Helper()
	s = endpointstest.New(t)
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
		err := endpointstest.Rejected(s, structs.KindPrecondition, m, endpointstest.RegisterRequest(given))
		require.ErrorContains(t, err, `the variable "nomad/volumes/default/v" of namespace "default", which does not `+
			`exist; to give it items: berth var put nomad/volumes/default/v NAME=@FILE`)
		require.Nil(t, volumeRow(s, "v"))
	}
	endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(referringVolume("nomad/volumes/prod/v")))
	putVariable(s, pathOfSecrets, "pass word", "x")
	err := endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(referringVolume(pathOfSecrets)))
	require.ErrorContains(t, err, "1 keys hold other characters")

	putVariable(s, pathOfSecrets, "password", canary)
	endpointstest.Must(s, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(referringVolume(pathOfSecrets)))
	require.Equal(t, canary, *confirmed)
	require.Nil(t, volumeRow(s, "v").Secrets)
	require.Nil(t, volumeRow(s, "v").SealedSecrets)
	require.NotContains(t, s.Raft.Text(), canary)

	got := s.GetVolume("v")
	require.Equal(t, pathOfSecrets, got.SecretsFrom)
	require.Equal(t, pathOfSecrets, got.SecretsVariable)
	require.Empty(t, got.Warnings)
	purgeVariable(s, pathOfSecrets)
	require.Contains(t, s.GetVolume("v").Warnings[0], "berth var put")
	endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeDelete,
		&structs.CSIVolumeDeleteRequest{ID: "v"})
	require.Equal(t, structs.VolumeReady, volumeRow(s, "v").State)
}

// A node gets the present items with its claim, and waits with the reason while there are none.
func TestClaimGet_HasTheItemsOfTheVariable(t *testing.T) {
	s, _ := secretsServer(t)
	s.AddAlloc("a1", "n1")
	putVariable(s, pathOfSecrets, "password", canary)
	endpointstest.Must(s, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(referringVolume(pathOfSecrets)))
	s.Claim("v", "a1", "n1")
	confirmAttach(s, "v", "n1")
	ready := endpointstest.Must(s, structs.CSIClaimGet, claimOf(s, "v", "a1", "n1"))
	require.True(t, ready.Ready)
	require.Equal(t, structs.Secrets{"password": canary}, ready.Volume.Secrets)

	putVariable(s, pathOfSecrets, "password", "rotated")
	ready = endpointstest.Must(s, structs.CSIClaimGet, claimOf(s, "v", "a1", "n1"))
	require.Equal(t, structs.Secrets{"password": "rotated"}, ready.Volume.Secrets)

	purgeVariable(s, pathOfSecrets)
	waiting := endpointstest.Must(s, structs.CSIClaimGet, claimOf(s, "v", "a1", "n1"))
	require.False(t, waiting.Ready)
	require.Nil(t, waiting.Volume.Secrets)
	require.Contains(t, waiting.Blocked, "berth var put "+pathOfSecrets)

	// A write of the variable ends the wait of the node.
	resp := answerAfter(s, waiting, func() { putVariable(s, pathOfSecrets, "password", "third") })
	require.Equal(t, structs.Secrets{"password": "third"}, resp.Volume.Secrets)

	// Items that no plugin may get make it wait, too.
	putVariable(s, pathOfSecrets, "pass word", "x")
	waiting = endpointstest.Must(s, structs.CSIClaimGet, claimOf(s, "v", "a1", "n1"))
	require.False(t, waiting.Ready)
	require.Nil(t, waiting.Volume.Secrets)
	require.Contains(t, waiting.Blocked, "1 keys hold other characters")
	resp = answerAfter(s, waiting, func() { putVariable(s, pathOfSecrets, "password", "fourth") })
	require.Equal(t, structs.Secrets{"password": "fourth"}, resp.Volume.Secrets)
}

// answerAfter has the node of claim a1 on volume v wait from an answer that is not ready, makes a change, and
// returns the ready answer.
func answerAfter(s *endpointstest.Server, waiting *structs.CSIClaimGetResponse, change func(),
) *structs.CSIClaimGetResponse {
	s.T.Helper()
	blocking := claimOf(s, "v", "a1", "n1")
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
		putVariable(s, other, "password", "of all")
		setPath := func(path string) {
			endpointstest.Must(s, storage.PluginSettingsSet,
				&storage.PluginSettingsRequest{ID: "pl", SecretsFrom: path})
		}
		putVariable(s, pathOfSecrets, "password", canary)
		setPath(pathOfSecrets)
		endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(referringVolume("")))
		s.Claim("v", "a1", "n1")
		confirmAttach(s, "v", "n1")
		purgeVariable(s, pathOfSecrets)
		for path, want := range map[string]structs.Secrets{other: {"password": "of all"}, "": nil} {
			setPath(pathOfSecrets)
			waiting := endpointstest.Must(s, structs.CSIClaimGet, claimOf(s, "v", "a1", "n1"))
			require.False(t, waiting.Ready)
			setPath(path)
			blocking := claimOf(s, "v", "a1", "n1")
			blocking.MinIndex = waiting.Index
			blocking.MaxWait = time.Minute
			start := time.Now()
			resp := endpointstest.Must(s, structs.CSIClaimGet, blocking)
			require.Zero(t, time.Since(start), path)
			require.True(t, resp.Ready)
			require.Equal(t, want, resp.Volume.Secrets)
		}
	})
}

func TestVolumeRegister_ReplacesOneFormOfSecretsByTheOther(t *testing.T) {
	s, confirmed := secretsServer(t)
	putVariable(s, pathOfSecrets, "password", "of the variable")
	endpointstest.Must(s, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(referringVolume(pathOfSecrets)))
	kept := referringVolume("")
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(kept))
	require.Equal(t, pathOfSecrets, volumeRow(s, "v").SecretsFrom)
	require.Equal(t, "of the variable", *confirmed)

	own := sealedVolume("v")
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(own))
	require.Empty(t, volumeRow(s, "v").SecretsFrom)
	require.NotNil(t, volumeRow(s, "v").SealedSecrets)
	require.Equal(t, canary, *confirmed)

	endpointstest.Must(s, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(referringVolume(pathOfSecrets)))
	require.Equal(t, pathOfSecrets, volumeRow(s, "v").SecretsFrom)
	require.Nil(t, volumeRow(s, "v").SealedSecrets)
	require.Equal(t, "of the variable", *confirmed)
}

// The path of a plugin counts for volumes without secrets of their own, each in its namespace.
func TestPluginConfig_NamesTheVariablesOfItsVolumes(t *testing.T) {
	s, confirmed := secretsServer(t)
	putVariable(s, pathOfSecrets, "password", "of the variable")
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(sealedVolume("own")))
	setPath := func(path string) {
		endpointstest.Must(s, storage.PluginSettingsSet,
			&storage.PluginSettingsRequest{ID: "pl", SecretsFrom: path})
	}
	setPath("nomad/volumes/{namespace}/{id}")
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(referringVolume("")))
	require.Equal(t, "of the variable", *confirmed)
	require.Empty(t, volumeRow(s, "v").SecretsFrom)
	require.Equal(t, pathOfSecrets, s.GetVolume("v").SecretsVariable)
	require.Empty(t, s.GetVolume("own").SecretsVariable)

	setPath("nomad/volumes/prod/all")
	err := endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(referringVolume("")))
	require.ErrorContains(t, err, `a volume of namespace "default" reads variables below nomad/volumes/default/`)
	setPath("")
	*confirmed = "x"
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(referringVolume("")))
	require.Empty(t, *confirmed)
}

func TestJobPlan_WarnsOfAMissingVariableOfAVolume(t *testing.T) {
	s, _ := secretsServer(t)
	putVariable(s, pathOfSecrets, "password", canary)
	endpointstest.Must(s, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(referringVolume(pathOfSecrets)))
	plan := func() string {
		return endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{Job: endpointstest.Job("j")}).Warnings
	}
	require.NotContains(t, plan(), "berth var put")
	purgeVariable(s, pathOfSecrets)
	require.Contains(t, plan(), "berth var put "+pathOfSecrets)
}
