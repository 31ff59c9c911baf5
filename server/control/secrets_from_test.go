package control

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"berth/fsm"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/access"
)

const secretsPath = "nomad/volumes/default/v"

// putSecrets writes the variable with the secret of the volume v.
func (w *testEnv) putSecrets(secret string) {
	w.t.Helper()
	w.sealed(aVolume("any", structs.VolumeReady)) // so that there is a root key
	text, err := json.Marshal(access.VariableItems{"k": secret})
	if err != nil {
		w.t.Fatal(err)
	}
	sealed, err := w.Keys.Seal(access.VariablePlace(structs.DefaultNamespace, secretsPath), text)
	if err != nil {
		w.t.Fatal(err)
	}
	put(w, fsm.VariablePut, &access.VariableChange{
		Namespace: structs.DefaultNamespace,
		Path:      secretsPath,
		Sealed:    sealed,
	})
}

func (w *testEnv) purgeSecrets() {
	w.t.Helper()
	put(w, fsm.VariableDelete, &access.VariableChange{
		Namespace: structs.DefaultNamespace,
		Path:      secretsPath,
	})
}

// referring returns the volume v, whose secrets are in the variable.
func referring(state string) *structs.CSIVolume {
	v := aVolume("v", state)
	v.Secrets = nil
	v.SecretsFrom = secretsPath
	return v
}

// lastSecret returns the secret of the last call with a method.
func (w *testEnv) lastSecret(method string) string {
	w.t.Helper()
	all := w.secretsOf(method)
	if len(all) == 0 {
		w.t.Fatalf("%s was not called", method)
	}
	return all[len(all)-1]
}

func (w *testEnv) wantLastSecret(method, want string) {
	w.t.Helper()
	if got := w.lastSecret(method); got != want {
		w.t.Errorf("%s was called with the secret %q, want %q", method, got, want)
	}
}

// A write of the variable is all that a rotation needs. A detach has the secrets of its attach, also after
// the variable was deleted.
func TestControllers_ReadTheSecretsOfAVariableForEachCall(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.putSecrets("one")
		w.addVolume(referring(structs.VolumeCreating))
		w.setAnswer(twoSteps(done))
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		w.wantLastSecret(createMethod, "one")

		w.putSecrets("two")
		w.addClaim("v", "a1", "n1")
		synctest.Wait()
		w.wantLastSecret(attachMethod, "two")

		w.putSecrets("three")
		v := referring(structs.VolumeReady)
		v.ExternalID = w.volume("v").ExternalID
		v.RequestedCapacityMin = 20
		w.addVolume(v)
		synctest.Wait()
		w.wantLastSecret(expandMethod, "three")
		w.wantLastSecret(growMethod, "three")

		w.purgeSecrets()
		put(w, fsm.VolumeUnpublish,
			&structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{{VolumeID: "v", AllocID: "a1"}}})
		synctest.Wait()
		w.wantSecret(detachMethod, "two")

		w.putSecrets("five")
		put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"})
		synctest.Wait()
		w.wantSecret(deleteMethod, "five")
	})
}

func TestControllers_WaitForTheVariableWithTheSecrets(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.putSecrets("one")
		w.purgeSecrets()
		w.addVolume(referring(structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		if calls := w.called(attachMethod); len(calls) > 0 {
			t.Fatal("the plugin was called without the secrets")
		}
		e := w.attachment("v", "n1").LastError
		if e == nil || e.Kind != structs.KindUnavailable ||
			!strings.Contains(e.Message, "berth var put "+secretsPath) {
			t.Fatalf("the error is %+v", e)
		}
		w.putSecrets("two")
		after(2 * w.Config.Retry.Max)
		w.wantSecret(attachMethod, "two")
	})
}

// An attachment that was never attached does not need the variable that its attach waited for.
func TestControllers_DetachWithoutAVariableThatNoAttachHadReached(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(referring(structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		put(w, fsm.VolumeUnpublish,
			&structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{{VolumeID: "v", AllocID: "a1"}}})
		after(2 * w.Config.Retry.Max)
		if a := csi.Attachment(w.Store.Read(), structs.DefaultNamespace, "v", "n1"); a != nil {
			t.Errorf("the attachment is left: %+v", a.LastError)
		}
	})
}

// An attach of unknown outcome is repeated unchanged (CSI spec, "Timeouts"); one that has surely failed takes
// the present secrets.
func TestControllers_RepeatAnAttachOfUnknownOutcomeWithItsSecrets(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.putSecrets("one")
		w.addVolume(referring(structs.VolumeReady))
		failure := answered(structs.KindTimeout, "DeadlineExceeded")
		w.setAnswer(func(c nodeCall) (any, error) {
			if c.method == attachMethod {
				return nil, failure
			}
			return nil, nil
		})
		w.addClaim("v", "a1", "n1")
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		w.putSecrets("two")
		after(2 * w.Config.Retry.Max)
		w.wantSecret(attachMethod, "one")

		w.setAnswer(func(c nodeCall) (any, error) {
			if c.method == attachMethod {
				return nil, answered(structs.KindInternal, "Internal")
			}
			return nil, nil
		})
		after(3 * w.Config.Retry.Max)
		w.wantLastSecret(attachMethod, "two")
	})
}

// Nothing is known of the attach of an attachment that was found: its detach has the present secrets.
func TestControllers_DetachAFoundAttachmentWithThePresentSecrets(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.putSecrets("one")
		w.addVolume(referring(structs.VolumeReady))
		stop := w.runLoop("controllers")
		defer stop()
		put(w, fsm.AttachmentsFound, &structs.CSIAttachmentsFound{Attachments: []*structs.CSIAttachment{{
			Namespace:      structs.DefaultNamespace,
			VolumeID:       "v",
			NodeID:         "n9",
			ExternalNodeID: "ext-n9",
		}}})
		synctest.Wait()
		w.wantSecret(detachMethod, "one")
	})
}
