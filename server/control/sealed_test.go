package control

import (
	"bytes"
	"testing"
	"testing/synctest"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/internal/keyring/keyringtest"
	"berth/structs"
	"berth/structs/nodecalls"
)

// sealed returns a volume whose secrets are encrypted with the key of the loops.
func (w *testEnv) sealed(v *structs.CSIVolume) *structs.CSIVolume {
	w.t.Helper()
	if w.Keys == nil {
		w.Keys = &keyring.Ring{}
		keyringtest.Use(w.t, w.Keys, "k1")
		put(w, fsm.RootKeyAdd, keyringtest.Row("k1"))
	}
	v.Namespace = structs.DefaultNamespace
	if err := keyring.SealVolume(w.Keys, v, nil); err != nil {
		w.t.Fatal(err)
	}
	return v
}

// secretsOf returns the secrets of the calls with one method.
func (w *testEnv) secretsOf(method string) (all []string) {
	for _, c := range w.called(method) {
		switch r := c.req.(type) {
		case *nodecalls.ClientCSIAttachRequest:
			all = append(all, r.Secrets["k"])
		case *nodecalls.ClientCSIDetachRequest:
			all = append(all, r.Secrets["k"])
		case *nodecalls.ClientCSICreateRequest:
			all = append(all, r.Secrets["k"])
		case *nodecalls.ClientCSIDeleteRequest:
			all = append(all, r.Secrets["k"])
		case *nodecalls.ClientCSIExpandRequest:
			all = append(all, r.Secrets["k"])
		case *nodecalls.ClientCSINodeExpandRequest:
			all = append(all, r.Secrets["k"])
		}
	}
	return all
}

// wantSecret fails the test unless every call of the method had the secret, and there was one.
func (w *testEnv) wantSecret(method, secret string) {
	w.t.Helper()
	all := w.secretsOf(method)
	if len(all) == 0 {
		w.t.Errorf("%s was not called", method)
	}
	for _, got := range all {
		if got != secret {
			w.t.Errorf("%s was called with the secret %q, want %q", method, got, secret)
		}
	}
}

func TestControllers_OpenTheSecretsOfTheirCalls(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(w.sealed(aVolume("new", structs.VolumeCreating)))
		w.addVolume(w.sealed(aVolume("v", structs.VolumeReady)))
		stop := w.runLoop("controllers")
		defer stop()
		w.addClaim("v", "a1", "n1")
		synctest.Wait()
		w.wantSecret(attachMethod, "v")
		if a := w.attachment("v", "n1"); a.Secrets != nil || a.SealedSecrets == nil {
			t.Error("the attachment has no sealed secrets, or plain ones")
		}
		w.wantSecret(createMethod, "v")

		// The detach has the secrets of the attach, in a former state of the row.
		other := aVolume("v", structs.VolumeReady)
		other.Secrets = structs.Secrets{"k": "rotated"}
		w.addVolume(w.sealed(other))
		put(w, fsm.VolumeUnpublish,
			&structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{{VolumeID: "v", AllocID: "a1"}}})
		synctest.Wait()
		w.wantSecret(detachMethod, "v")
		put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"})
		synctest.Wait()
		w.wantSecret(deleteMethod, "rotated")
	})
}

func TestControllers_TakeFreshSealedSecretsAfterADenial(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(w.sealed(aVolume("v", structs.VolumeReady)))
		w.addClaim("v", "a1", "n1")
		w.setAnswer(func(c nodeCall) (any, error) {
			if r, ok := c.req.(*nodecalls.ClientCSIAttachRequest); ok && r.Secrets["k"] != "new" {
				return nil, answered(structs.KindDenied, "Unauthenticated")
			}
			return nil, nil
		})
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		v := aVolume("v", structs.VolumeReady)
		v.Secrets = structs.Secrets{"k": "new"}
		w.addVolume(w.sealed(v))
		after(2 * finalDelay)
		a := w.attachment("v", "n1")
		if a.State != structs.AttachmentAttached {
			t.Fatalf("%+v", a.LastError)
		}
		if a.Secrets != nil || !bytes.Equal(a.SealedSecrets.Data, w.volume("v").SealedSecrets.Data) {
			t.Error("the attachment does not have the volume's sealed secrets")
		}
	})
}

func TestControllers_WaitForTheRootKeyOfTheSecrets(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(w.sealed(aVolume("v", structs.VolumeReady)))
		w.Keys.Remove("k1")
		w.addClaim("v", "a1", "n1")
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		if calls := w.called(attachMethod); len(calls) > 0 {
			t.Fatal("the plugin was called without the secrets")
		}
		if e := w.attachment("v", "n1").LastError; e == nil || e.Kind != structs.KindUnavailable {
			t.Fatalf("got %+v, want an error of kind unavailable", e)
		}
		keyringtest.Use(t, w.Keys, "k1")
		after(2 * w.Config.Retry.Max)
		w.wantSecret(attachMethod, "v")
	})
}
