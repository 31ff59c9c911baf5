package state

import (
	"testing"

	"berth/structs"
)

// putSealed gives a volume of the fixture sealed secrets, which a key of the given ID has encrypted.
func (w *fixture) putSealed(id, external, key string) {
	w.t.Helper()
	v := aVolume(id, "p")
	v.ExternalID = external
	v.SealedSecrets = &structs.Sealed{KeyID: key, Data: []byte(key)}
	do(w, VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v},
		WriteOptions: w.now(),
	})
}

func TestVolumePut_KeepsSealedSecretsThatARequestLeavesOut(t *testing.T) {
	w := threeNodes(t, true)
	w.putSealed("v", "ext-v", "k1")
	w.register("v", "ext-v")
	v := Volume(w.s.Read(), "default", "v")
	if v.SealedSecrets == nil || v.SealedSecrets.KeyID != "k1" {
		t.Errorf("got %+v, want the stored secrets", v.SealedSecrets)
	}
}

// Sealed secrets open under the name alone under which they were sealed.
func TestRecover_TakesTheSealedSecretsOfThePresentName(t *testing.T) {
	w := threeNodes(t, true)
	w.putSealed("v", "ext-v", "of-v")
	saved := w.save()
	w.deregister("v")
	w.putSealed("w", "ext-v", "of-w")
	w.claim(aClaim("w", "b1", wr, snw))
	w.outcome("w", "n1", "attach", nil)
	if a := Attachment(w.s.Read(), "default", "w", "n1"); a == nil || a.SealedSecrets.KeyID != "of-w" {
		t.Fatalf("the attachment before is %+v", a)
	}
	back := w.restored(saved)
	a := Attachment(back.s.Read(), "default", "v", "n1")
	if a == nil || a.SealedSecrets == nil || a.SealedSecrets.KeyID != "of-v" {
		t.Errorf("the attachment is %+v", a)
	}
}
