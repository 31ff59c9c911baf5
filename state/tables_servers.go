package state

import (
	"berth/internal/mvcc"
	"berth/structs"
)

// This file declares the tables about the servers themselves.

// onlyAutopilotConfig is the key of the one row of its table.
const onlyAutopilotConfig = "config"

// autopilotConfig has one row, the configuration of autopilot.
var autopilotConfig = mvcc.NewTable("autopilot_config", func(*structs.AutopilotConfig) Key {
	return mvcc.KeyOf(onlyAutopilotConfig)
})

// rootKeys has the root keys by ID.
var rootKeys = mvcc.NewTable("root_keys", func(k *structs.RootKey) Key {
	return mvcc.KeyOf(k.KeyID)
})

// authorities has the authorities of the cluster by ID, also those that are no longer trusted.
var authorities = mvcc.NewTable("authorities", func(a *structs.Authority) Key {
	return mvcc.KeyOf(a.ID)
})

var (
	// joinTokens has the join tokens by ID.
	joinTokens = mvcc.NewTable("join_tokens", func(t *structs.JoinToken) Key {
		return mvcc.KeyOf(t.ID)
	})

	// certificates has the last certificate of each machine by role and ID.
	certificates = mvcc.NewTable("machine_certificates", func(c *structs.MachineCertificate) Key {
		return mvcc.KeyOf(c.Role, c.ID)
	})

	// Certificates by their end, for the deletion.
	certificatesByEnd = certificates.Index("end", func(c *structs.MachineCertificate) Key {
		return mvcc.KeyOf(orderedTime(c.NotAfter))
	})
)

// A revocation stays until an operator deletes it. Certificates of an operator's own authority may be valid
// for years, and no row tells their end.
var revocations = mvcc.NewTable("revocations", func(r *structs.Revocation) Key {
	return mvcc.KeyOf(r.ID)
})

// nodeLeases has the longer leases that operators have ordered, by node.
var nodeLeases = mvcc.NewTable("node_leases", func(l *structs.NodeLease) Key {
	return mvcc.KeyOf(l.NodeID)
})

var (
	// variables has the variables by namespace and path.
	variables = mvcc.NewTable("variables", func(v *structs.Variable) Key {
		return mvcc.KeyOf(v.Namespace, v.Path)
	})

	// Variables whose lock somebody has, or whose lock has ended and its delay has not.
	lockedVariables = variables.Index("locked", func(v *structs.Variable) Key {
		return mvcc.KeyIf(v.Lock != nil, v.Namespace, v.Path)
	})
)

var (
	// Volumes with secrets that are not encrypted.
	plainVolumes = volumes.Index("plain_secrets", func(v *structs.CSIVolume) Key {
		plain := len(v.Secrets) > 0 || v.Deletion != nil && len(v.Deletion.Secrets) > 0
		return mvcc.KeyIf(plain, v.Namespace, v.ID)
	})

	// Attachments with secrets that are not encrypted.
	plainAttachments = attachments.Index("plain_secrets", func(a *structs.CSIAttachment) Key {
		return mvcc.KeyIf(len(a.Secrets) > 0, a.Namespace, a.VolumeID, a.NodeID)
	})
)

// onlySecretsMark is the key of the one row of its table.
const onlySecretsMark = "sealed"

// secretsMarks has one row, the mark that no row has plain secrets.
var secretsMarks = mvcc.NewTable("secrets_marks", func(*structs.SecretsMark) Key {
	return mvcc.KeyOf(onlySecretsMark)
})
