package trust

import (
	"iter"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/cluster"
)

// PlainVolumes yields the volumes with secrets that are not encrypted.
func PlainVolumes(tx mvcc.Reader) iter.Seq[*structs.CSIVolume] { return schema.PlainVolumes.Scan(tx) }

// PlainAttachments yields the attachments with secrets that are not encrypted.
func PlainAttachments(tx mvcc.Reader) iter.Seq[*structs.CSIAttachment] {
	return schema.PlainAttachments.Scan(tx)
}

// SecretsMark returns the row with the index from which on no row has plain secrets, nil for none.
func SecretsMark(tx mvcc.Reader) *cluster.SecretsMark {
	return schema.SecretsMarks.Get(tx, schema.OnlySecretsMark)
}

// SecretsSeal replaces the plain secrets of rows by their encrypted form. It leaves out rows that have
// changed since they were read. It deletes the mark: the entries so far have the plain secrets of these rows.
func SecretsSeal(tx *mvcc.WriteTx, p *cluster.SecretsSealRequest) error {
	if len(p.Rows) > cluster.MaxSealedRows {
		return structs.Invalidf("Rows: %d are given; expected at most %d", len(p.Rows), cluster.MaxSealedRows)
	}
	for _, r := range p.Rows {
		if r == nil {
			return structs.Invalidf("Rows: a row is empty")
		}
		err := CheckSealed(tx, r.Secrets, r.Deletion)
		if err != nil {
			return err
		}
	}
	for _, r := range p.Rows {
		if r.NodeID == "" {
			sealVolume(tx, r)
		} else {
			sealAttachment(tx, r)
		}
	}
	mark := SecretsMark(tx)
	if mark != nil {
		schema.SecretsMarks.Delete(tx, mark)
	}
	return nil
}

func sealVolume(tx *mvcc.WriteTx, r *cluster.SealedRow) {
	v := schema.Volumes.Get(tx, r.Namespace, r.VolumeID)
	if v == nil || v.ModifyIndex != r.ModifyIndex {
		return
	}
	v = v.Copy()
	if r.Secrets != nil {
		v.Secrets = nil
		v.SealedSecrets = r.Secrets
	}
	if r.Deletion != nil && v.Deletion != nil {
		v.Deletion = &structs.CSIDeletion{SealedSecrets: r.Deletion}
	}
	unblock.PutVolumeWithout(tx, v)
}

func sealAttachment(tx *mvcc.WriteTx, r *cluster.SealedRow) {
	a := schema.Attachments.Get(tx, r.Namespace, r.VolumeID, r.NodeID)
	if a == nil || a.ModifyIndex != r.ModifyIndex || r.Secrets == nil {
		return
	}
	a = a.Copy()
	a.Secrets = nil
	a.SealedSecrets = r.Secrets
	schema.Attachments.Put(tx, a)
}

// SecretsSealed puts the mark, unless a row has plain secrets again. It keeps a mark that exists.
func SecretsSealed(tx *mvcc.WriteTx, p *cluster.SecretsSealedRequest) error {
	if schema.PlainVolumes.First(tx) != nil || schema.PlainAttachments.First(tx) != nil {
		return structs.Conflictf("some rows have plain secrets")
	}
	if SecretsMark(tx) == nil {
		schema.SecretsMarks.Put(tx, &cluster.SecretsMark{Time: p.Now})
	}
	return nil
}

// sealedOfVolume lists the encrypted secrets of a volume (see SealedTables).
func sealedOfVolume(v *structs.CSIVolume) []SealedField {
	place := structs.VolumePlace(v.Namespace, v.ID)
	fields := []SealedField{{
		Place: place,
		Value: v.SealedSecrets,
		Set:   func(s *structs.Sealed) { v.SealedSecrets = s },
	}}
	if v.Deletion != nil {
		fields = append(fields, SealedField{
			Place: place,
			Value: v.Deletion.SealedSecrets,
			Set: func(s *structs.Sealed) {
				deletion := *v.Deletion // a copy of the volume shares it
				deletion.SealedSecrets = s
				v.Deletion = &deletion
			},
		})
	}
	return fields
}

// sealedOfAttachment lists the encrypted secrets of an attachment (see SealedTables).
func sealedOfAttachment(a *structs.CSIAttachment) []SealedField {
	return []SealedField{{
		Place: structs.VolumePlace(a.Namespace, a.VolumeID),
		Value: a.SealedSecrets,
		Set:   func(s *structs.Sealed) { a.SealedSecrets = s },
	}}
}
