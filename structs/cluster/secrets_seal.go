package cluster

import "berth/structs"

// SealedRow has the encrypted form of the plain secrets of one row: of an attachment, or of a volume if
// NodeID is "".
type SealedRow struct {
	Namespace   string
	VolumeID    string
	NodeID      string
	ModifyIndex uint64          // of the row: another one has other secrets, perhaps
	Secrets     *structs.Sealed // nil: the row has none
	Deletion    *structs.Sealed // of CSIVolume.Deletion, nil: it has none
}

// SecretsSealRequest replaces the plain secrets of at most MaxSealedRows rows.
type SecretsSealRequest struct {
	Rows []*SealedRow
}

// MaxSealedRows bounds the rows whose secrets one log entry replaces.
const MaxSealedRows = 64

// SecretsSealedRequest records that no row has plain secrets.
type SecretsSealedRequest struct {
	Now int64
}

// SecretsMark is the only row of its table. Its ModifyIndex is the index of an entry at which no row had
// plain secrets. Entries and snapshots up to it may have some, so each server removes those from its disk.
// There is no row before the cluster has a root key, nor while rows with plain secrets are being replaced.
type SecretsMark struct {
	Time int64 // UnixNano
	structs.Indexes
}
