package state_test

import (
	"maps"
	"testing"

	"berth/state/csi"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// putSealed gives a volume of the fixture sealed secrets, which a key of the given ID has encrypted.
func (w *fixture) putSealed(id, external, key string) {
	w.T.Helper()
	w.NeedKey(key)
	v := aVolume(id, "p")
	v.ExternalID = external
	v.SealedSecrets = &structs.Sealed{KeyID: key, Data: []byte(key)}
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v},
		WriteOptions: w.Now(),
	})
}

func TestVolumePut_KeepsSealedSecretsThatARequestLeavesOut(t *testing.T) {
	w := threeNodes(t, true)
	w.putSealed("v", "ext-v", "k1")
	w.register("v", "ext-v")
	v := csi.Volume(w.Store.Read(), "default", "v")
	if v.SealedSecrets == nil || v.SealedSecrets.KeyID != "k1" {
		t.Errorf("got %+v, want the stored secrets", v.SealedSecrets)
	}
}

// Sealed secrets open under the name alone under which they were sealed.
func TestRecover_TakesTheSealedSecretsOfThePresentName(t *testing.T) {
	w := threeNodes(t, true)
	w.putSealed("v", "ext-v", "of-v")
	saved := w.Save()
	w.deregister("v")
	w.putSealed("w", "ext-v", "of-w")
	w.Claim(aClaim("w", "b1", wr, snw))
	w.Outcome("w", "n1", "attach", nil)
	if a := csi.Attachment(w.Store.Read(), "default", "w", "n1"); a == nil || a.SealedSecrets.KeyID != "of-w" {
		t.Fatalf("the attachment before is %+v", a)
	}
	back := w.restored(saved)
	a := csi.Attachment(back.Store.Read(), "default", "v", "n1")
	if a == nil || a.SealedSecrets == nil || a.SealedSecrets.KeyID != "of-v" {
		t.Errorf("the attachment is %+v", a)
	}
}

// plain gives a volume of the fixture secrets that are not encrypted.
func (w *fixture) plain(id string) *structs.CSIVolume {
	w.T.Helper()
	v := aVolume(id, "p")
	v.ExternalID = "ext-" + id
	v.Secrets = structs.Secrets{"k": "v"}
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v},
		WriteOptions: w.Now(),
	})
	return csi.Volume(w.Store.Read(), "default", id)
}

func sealedRow(v *structs.CSIVolume) *cluster.SealedRow {
	return &cluster.SealedRow{
		Namespace:   v.Namespace,
		VolumeID:    v.ID,
		ModifyIndex: v.ModifyIndex,
		Secrets:     &structs.Sealed{KeyID: "k1", Data: []byte("x")},
	}
}

func TestSecretsSeal_ReplacesOnlyTheSecretsThatWereRead(t *testing.T) {
	w := threeNodes(t, true)
	w.NeedKey("k1")
	old := w.plain("v")
	now := w.plain("other")
	changed := now.Copy()
	changed.Secrets = structs.Secrets{"k": "newer"}
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{changed},
		WriteOptions: w.Now(),
	})
	do(w, trust.SecretsSeal, &cluster.SecretsSealRequest{
		Rows: []*cluster.SealedRow{sealedRow(old), sealedRow(now)},
	})
	sealed := csi.Volume(w.Store.Read(), "default", "v")
	if sealed.Secrets != nil || sealed.SealedSecrets.KeyID != "k1" {
		t.Errorf("the secrets of the volume are not sealed: %+v", sealed)
	}
	kept := csi.Volume(w.Store.Read(), "default", "other")
	if kept.Secrets["k"] != "newer" || kept.SealedSecrets != nil {
		t.Error("older secrets have replaced newer ones")
	}
	rows := 0
	for v := range trust.PlainVolumes(w.Store.Read()) {
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
	w.NeedKey("k1")
	w.plain("v")
	do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{
		ID:           "v",
		Secrets:      structs.Secrets{"k": "of the deletion"},
		WriteOptions: w.Now(),
	})
	row := sealedRow(csi.Volume(w.Store.Read(), "default", "v"))
	row.Deletion = &structs.Sealed{KeyID: "k1", Data: []byte("stored")}
	do(w, trust.SecretsSeal, &cluster.SecretsSealRequest{Rows: []*cluster.SealedRow{row}})
	v := csi.Volume(w.Store.Read(), "default", "v")
	if v.Secrets != nil || v.Deletion.Secrets != nil || string(v.Deletion.SealedSecrets.Data) != "stored" {
		t.Errorf("the volume is %+v", v)
	}
}

func TestSecretsSealed_NeedsThatNoRowHasPlainSecrets(t *testing.T) {
	w := threeNodes(t, true)
	w.NeedKey("k1")
	v := w.plain("v")
	request := &cluster.SecretsSealedRequest{Now: 1}
	if err := try(w, trust.SecretsSealed, request); !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	seal := &cluster.SecretsSealRequest{Rows: []*cluster.SealedRow{sealedRow(v)}}
	do(w, trust.SecretsSeal, seal)
	do(w, trust.SecretsSealed, request)
	mark := trust.SecretsMark(w.Store.Read())
	if mark == nil || mark.ModifyIndex != w.Index {
		t.Fatalf("the mark is %+v at index %d", mark, w.Index)
	}
	do(w, trust.SecretsSealed, request)
	if now := trust.SecretsMark(w.Store.Read()); now.ModifyIndex != mark.ModifyIndex {
		t.Error("a mark was put again")
	}
	// The entries before a later seal have plain secrets, too.
	do(w, trust.SecretsSeal, &cluster.SecretsSealRequest{
		Rows: []*cluster.SealedRow{sealedRow(w.plain("later"))},
	})
	if trust.SecretsMark(w.Store.Read()) != nil {
		t.Error("the mark is older than plain secrets")
	}
}

func TestSecretsSeal_RejectsAKeyThatWasRemoved(t *testing.T) {
	w := threeNodes(t, true)
	v := w.plain("v")
	request := &cluster.SecretsSealRequest{Rows: []*cluster.SealedRow{sealedRow(v)}}
	wantKind(t, try(w, trust.SecretsSeal, request), structs.KindUnavailable)
	if v := csi.Volume(w.Store.Read(), "default", "v"); v.Secrets["k"] != "v" || v.SealedSecrets != nil {
		t.Errorf("the secrets are sealed with a key that is gone: %+v", v)
	}
}

// A root key that secrets of a volume, of its deletion or of its attachments need stays.
func TestSealedValues_HaveTheSecretsOfVolumes(t *testing.T) {
	w := threeNodes(t, true)
	w.putSealed("v", "ext-v", "k1")
	w.Claim(aClaim("v", "b1", wr, snw))
	w.putSealed("d", "ext-d", "k1")
	do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{
		ID:            "d",
		SealedSecrets: &structs.Sealed{KeyID: "k1", Data: []byte("of the deletion")},
		WriteOptions:  w.Now(),
	})
	places := map[string]int{}
	request := &cluster.ResealRequest{}
	w.NeedKey("k2")
	for v := range trust.SealedValues(w.Store.Read()) {
		places[v.Table+" "+v.Place]++
		request.Values = append(request.Values, cluster.ResealedValue{
			Table: v.Table,
			Key:   v.Key,
			Place: v.Place,
			Was:   trust.SealedDigest(v.Value),
			Value: structs.Sealed{KeyID: "k2", Data: append([]byte("new "), v.Value.Data...)},
		})
	}
	want := map[string]int{
		"csi_volumes volume default/v":     1,
		"csi_volumes volume default/d":     2,
		"csi_attachments volume default/v": 1,
	}
	if !maps.Equal(places, want) {
		t.Fatalf("the sealed values are %v, want %v", places, want)
	}
	before := csi.Volume(w.Store.Read(), "default", "d")
	do(w, trust.Reseal, request)
	d := csi.Volume(w.Store.Read(), "default", "d")
	stored, own := string(d.Deletion.SealedSecrets.Data), string(d.SealedSecrets.Data)
	if stored != "new k1" || own != "new of the deletion" {
		t.Errorf("the volume has %+v and %+v", d.Deletion.SealedSecrets, d.SealedSecrets)
	}
	if before.Deletion.SealedSecrets.KeyID != "k1" {
		t.Error("a row of a snapshot has changed")
	}
	if a := csi.Attachment(w.Store.Read(), "default", "v", "n1"); a.SealedSecrets.KeyID != "k2" {
		t.Errorf("the attachment has %+v", a.SealedSecrets)
	}
	remove := &cluster.RootKeyRemoveRequest{KeyID: "k1"}
	if err := try(w, trust.RootKeyRemove, remove); err != nil {
		t.Errorf("the key that nothing needs stays: %v", err)
	}
}

// A value that was encrypted with a key that is gone would be lost.
func TestVolumes_TakeNoSecretsOfAKeyThatIsGone(t *testing.T) {
	w := threeNodes(t, true)
	w.putSealed("v", "ext-v", "k1")
	w.Claim(aClaim("v", "b1", wr, snw))
	w.putSealed("free", "ext-free", "k1")
	gone := &structs.Sealed{KeyID: "gone", Data: []byte("x")}
	v := aVolume("w", "p")
	v.SealedSecrets = gone
	wantKind(t, try(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v},
		WriteOptions: w.Now(),
	}), structs.KindUnavailable)
	wantKind(t, try(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{
		ID:            "free",
		SealedSecrets: gone,
		WriteOptions:  w.Now(),
	}), structs.KindUnavailable)
	a := csi.Attachment(w.Store.Read(), "default", "v", "n1")
	wantKind(t, try(w, csi.CallNote, &structs.CSICallNote{
		VolumeID:      "v",
		NodeID:        "n1",
		RowIndex:      a.CreateIndex,
		SealedSecrets: gone,
		WriteOptions:  w.Now(),
	}), structs.KindUnavailable)
}
