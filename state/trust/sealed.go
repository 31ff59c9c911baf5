package trust

import (
	"bytes"
	"crypto/sha256"
	"iter"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/structs/storage"
)

// This file lists the places of sealed values: the rows with secrets that are encrypted with a root key. The
// number of uses of a key, its removal and the encryption with another key go over this list alone.

// SealedTables has a line for each table whose rows have sealed values.
var SealedTables = []sealedTable{
	SealedIn(schema.Volumes, (*structs.CSIVolume).Copy, sealedOfVolume, unblock.PutVolumeWithout),
	SealedIn(schema.Snapshots, (*storage.VolumeSnapshot).Copy, sealedOfSnapshot, nil),
	SealedIn(schema.Attachments, (*structs.CSIAttachment).Copy, sealedOfAttachment, nil),
	SealedIn(schema.Variables, copyVariable, sealedOfVariable, nil),
	SealedIn(schema.Authorities, copyAuthority, sealedOfAuthority, nil),
	SealedIn(schema.SigningKeys, copySigningKey, sealedOfSigningKey, nil),
	SealedIn(schema.ACLAuthMethods, copyMethod, sealedOfMethod, nil),
}

// SealedField is a sealed value of a row, which may be nil.
type SealedField struct {
	Place string // for which it was sealed: see keyring.Ring.Seal
	Value *structs.Sealed
	Set   func(*structs.Sealed) // replaces the value in the row
}

// sealedTable is a table whose rows have sealed values.
type sealedTable struct {
	name    string
	scan    func(tx mvcc.Reader) iter.Seq[SealedValue]
	replace func(tx *mvcc.WriteTx, v *cluster.ResealedValue)
}

// SealedValue is a sealed value with the row that has it.
type SealedValue struct {
	Table string
	Key   mvcc.Key // of the row
	Place string
	Value *structs.Sealed
}

// SealedIn returns the line of a table. copied returns a copy of a row in which each set of its fields
// changes nothing else. fields lists the sealed values of a row. put stores a changed one, nil: as t does.
func SealedIn[R mvcc.Record](
	t *mvcc.Table[R],
	copied func(R) R,
	fields func(R) []SealedField,
	put func(*mvcc.WriteTx, R),
) sealedTable {
	if put == nil {
		put = func(tx *mvcc.WriteTx, r R) { t.Put(tx, r) }
	}
	return sealedTable{
		name: t.Name(),
		scan: func(tx mvcc.Reader) iter.Seq[SealedValue] {
			return func(yield func(SealedValue) bool) {
				for r := range t.Scan(tx) {
					for _, f := range fields(r) {
						if f.Value != nil && !yield(SealedValue{t.Name(), t.KeyOfRow(r), f.Place, f.Value}) {
							return
						}
					}
				}
			}
		},
		replace: func(tx *mvcc.WriteTx, v *cluster.ResealedValue) {
			var none R
			r := t.GetKey(tx, v.Key)
			if any(r) == any(none) {
				return
			}
			r = copied(r)
			for _, f := range fields(r) {
				if f.Place == v.Place && f.Value != nil && bytes.Equal(SealedDigest(f.Value), v.Was) {
					f.Set(&v.Value)
					put(tx, r)
				}
			}
		},
	}
}

// SealedValues yields all sealed values.
func SealedValues(tx mvcc.Reader) iter.Seq[SealedValue] {
	return func(yield func(SealedValue) bool) {
		for _, t := range SealedTables {
			for v := range t.scan(tx) {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// SealedDigest identifies an encryption of a value (see cluster.ResealedValue).
func SealedDigest(s *structs.Sealed) []byte {
	sum := sha256.Sum256(s.Data)
	return sum[:]
}

// CheckSealed returns an error if the root key of a value that a command stores was removed: nobody could
// decrypt it. It is of kind unavailable, because the value may be sealed again. nil values are skipped.
func CheckSealed(tx mvcc.Reader, values ...*structs.Sealed) error {
	for _, s := range values {
		if s != nil && RootKey(tx, s.KeyID) == nil {
			return structs.Unavailablef("root key %s, with which a secret is encrypted, was removed; repeat the request", s.KeyID)
		}
	}
	return nil
}

// Reseal replaces sealed values by the same secrets under the active root key. It leaves a value that has
// changed since it was read.
func Reseal(tx *mvcc.WriteTx, p *cluster.ResealRequest) error {
	if len(p.Values) > cluster.MaxResealedValues {
		return structs.Invalidf("Values: %d are given; expected at most %d",
			len(p.Values), cluster.MaxResealedValues)
	}
	for i := range p.Values {
		if err := CheckSealed(tx, &p.Values[i].Value); err != nil {
			return err
		}
	}
	for i := range p.Values {
		for _, t := range SealedTables {
			if t.name == p.Values[i].Table {
				t.replace(tx, &p.Values[i])
			}
		}
	}
	return nil
}

// CheckSealedValues checks that the root key of each sealed value is there.
func CheckSealedValues(c *schema.Report) {
	for v := range SealedValues(c) {
		c.Want(RootKey(c, v.Value.KeyID) != nil,
			"the secret of %s: its root key %s is gone", v.Place, v.Value.KeyID)
	}
}

// sealedOfSnapshot lists the encrypted secrets of a snapshot, which are its volume's (see SealedTables).
func sealedOfSnapshot(s *storage.VolumeSnapshot) []SealedField {
	return []SealedField{{
		Place: structs.VolumePlace(s.Namespace, s.VolumeID),
		Value: s.SealedSecrets,
		Set:   func(v *structs.Sealed) { s.SealedSecrets = v },
	}}
}

// sealedOfVariable lists the encrypted items of a variable (see SealedTables).
func sealedOfVariable(v *access.Variable) []SealedField {
	return []SealedField{{
		Place: access.VariablePlace(v.Namespace, v.Path),
		Value: v.Sealed,
		Set:   func(s *structs.Sealed) { v.Sealed = s },
	}}
}

func copyVariable(v *access.Variable) *access.Variable { return new(*v) }

// sealedOfSigningKey lists the encrypted private part of a signing key (see SealedTables).
func sealedOfSigningKey(k *access.SigningKey) []SealedField {
	return []SealedField{{
		Place: access.SigningKeyPlace(k.KeyID),
		Value: k.Private,
		Set:   func(s *structs.Sealed) { k.Private = s },
	}}
}

func copySigningKey(k *access.SigningKey) *access.SigningKey { return new(*k) }

// sealedOfMethod lists the encrypted secrets of an auth method (see SealedTables).
func sealedOfMethod(m *access.AuthMethod) []SealedField {
	return []SealedField{{
		Place: access.AuthPlace(m.Name),
		Value: m.Sealed,
		Set:   func(s *structs.Sealed) { m.Sealed = s },
	}}
}

func copyMethod(m *access.AuthMethod) *access.AuthMethod { return new(*m) }
