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

// plain gives a volume of the fixture secrets that are not encrypted.
func (w *fixture) plain(id string) *structs.CSIVolume {
	w.t.Helper()
	v := aVolume(id, "p")
	v.ExternalID = "ext-" + id
	v.Secrets = structs.Secrets{"k": "v"}
	do(w, VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v},
		WriteOptions: w.now(),
	})
	return Volume(w.s.Read(), "default", id)
}

func sealedRow(v *structs.CSIVolume) *structs.SealedRow {
	return &structs.SealedRow{
		Namespace:   v.Namespace,
		VolumeID:    v.ID,
		ModifyIndex: v.ModifyIndex,
		Secrets:     &structs.Sealed{KeyID: "k1", Data: []byte("x")},
	}
}

func TestSecretsSeal_ReplacesOnlyTheSecretsThatWereRead(t *testing.T) {
	w := threeNodes(t, true)
	old := w.plain("v")
	now := w.plain("other")
	changed := now.Copy()
	changed.Secrets = structs.Secrets{"k": "newer"}
	do(w, VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{changed},
		WriteOptions: w.now(),
	})
	do(w, SecretsSeal, &structs.SecretsSealRequest{Rows: []*structs.SealedRow{sealedRow(old), sealedRow(now)}})
	sealed := Volume(w.s.Read(), "default", "v")
	if sealed.Secrets != nil || sealed.SealedSecrets.KeyID != "k1" {
		t.Errorf("the secrets of the volume are not sealed: %+v", sealed)
	}
	kept := Volume(w.s.Read(), "default", "other")
	if kept.Secrets["k"] != "newer" || kept.SealedSecrets != nil {
		t.Error("older secrets have replaced newer ones")
	}
	rows := 0
	for v := range PlainVolumes(w.s.Read()) {
		rows++
		if v.ID != "other" {
			t.Errorf("%s counts as plain", v.ID)
		}
	}
	if rows != 1 {
		t.Errorf("%d volumes have plain secrets, want 1", rows)
	}
}

func TestSecretsSeal_KeepsTheSecretsOfADeletionApart(t *testing.T) {
	w := threeNodes(t, true)
	w.plain("v")
	do(w, VolumeDelete, &structs.CSIVolumeDeleteRequest{
		ID:           "v",
		Secrets:      structs.Secrets{"k": "of the deletion"},
		WriteOptions: w.now(),
	})
	row := sealedRow(Volume(w.s.Read(), "default", "v"))
	row.Deletion = &structs.Sealed{KeyID: "k1", Data: []byte("stored")}
	do(w, SecretsSeal, &structs.SecretsSealRequest{Rows: []*structs.SealedRow{row}})
	v := Volume(w.s.Read(), "default", "v")
	if v.Secrets != nil || v.Deletion.Secrets != nil || string(v.Deletion.SealedSecrets.Data) != "stored" {
		t.Errorf("the volume is %+v", v)
	}
}

func TestSecretsSealed_NeedsThatNoRowHasPlainSecrets(t *testing.T) {
	w := threeNodes(t, true)
	v := w.plain("v")
	request := &structs.SecretsSealedRequest{Now: 1}
	if err := try(w, SecretsSealed, request); !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	seal := &structs.SecretsSealRequest{Rows: []*structs.SealedRow{sealedRow(v)}}
	do(w, SecretsSeal, seal)
	do(w, SecretsSealed, request)
	mark := SecretsMark(w.s.Read())
	if mark == nil || mark.ModifyIndex != w.index {
		t.Fatalf("the mark is %+v at index %d", mark, w.index)
	}
	do(w, SecretsSealed, request)
	if now := SecretsMark(w.s.Read()); now.ModifyIndex != mark.ModifyIndex {
		t.Error("a mark was put again")
	}
	// The entries before a later seal have plain secrets, too.
	do(w, SecretsSeal, &structs.SecretsSealRequest{Rows: []*structs.SealedRow{sealedRow(w.plain("later"))}})
	if SecretsMark(w.s.Read()) != nil {
		t.Error("the mark is older than plain secrets")
	}
}
