package schema

import (
	"berth/internal/mvcc"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// This file declares the tables about the servers themselves.

// OnlyAutopilotConfig is the key of the one row of its table.
const OnlyAutopilotConfig = "config"

// AutopilotConfig has one row, the configuration of autopilot.
var AutopilotConfig = mvcc.NewTable("autopilot_config", func(*cluster.AutopilotConfig) mvcc.Key {
	return mvcc.KeyOf(OnlyAutopilotConfig)
})

// RootKeys has the root keys by ID.
var RootKeys = mvcc.NewTable("root_keys", func(k *cluster.RootKey) mvcc.Key {
	return mvcc.KeyOf(k.KeyID)
})

// authorities has the authorities of the cluster by ID, also authorities that are no longer trusted.
var Authorities = mvcc.NewTable("authorities", func(a *cluster.Authority) mvcc.Key {
	return mvcc.KeyOf(a.ID)
})

var (
	// JoinTokens has the join tokens by ID.
	JoinTokens = mvcc.NewTable("join_tokens", func(t *cluster.JoinToken) mvcc.Key {
		return mvcc.KeyOf(t.ID)
	})

	// Certificates has the last certificate of each machine by role and ID.
	Certificates = mvcc.NewTable("machine_certificates", func(c *cluster.MachineCertificate) mvcc.Key {
		return mvcc.KeyOf(c.Role, c.ID)
	})

	// Certificates by their end, for the deletion.
	CertificatesByEnd = Certificates.Index("end", func(c *cluster.MachineCertificate) mvcc.Key {
		return mvcc.KeyOf(orderedTime(c.NotAfter))
	})

	// Certificates that bind the name of their node, by the name.
	CertificatesByNodeName = Certificates.Index("node_name", func(c *cluster.MachineCertificate) mvcc.Key {
		return mvcc.KeyIf(c.NodeName != "", c.NodeName, c.ID)
	})
)

// A revocation stays until an operator deletes it. Certificates of an operator's own authority may be valid
// for years, and no row tells their end.
var Revocations = mvcc.NewTable("revocations", func(r *cluster.Revocation) mvcc.Key {
	return mvcc.KeyOf(r.ID)
})

// NodeLeases has the longer leases that operators have ordered, by node.
var NodeLeases = mvcc.NewTable("node_leases", func(l *cluster.NodeLease) mvcc.Key {
	return mvcc.KeyOf(l.NodeID)
})

var (
	// Variables has the variables by namespace and path.
	Variables = mvcc.NewTable("variables", func(v *access.Variable) mvcc.Key {
		return mvcc.KeyOf(v.Namespace, v.Path)
	})

	// Variables whose lock somebody has, or whose lock has ended and its delay has not.
	LockedVariables = Variables.Index("locked", func(v *access.Variable) mvcc.Key {
		return mvcc.KeyIf(v.Lock != nil, v.Namespace, v.Path)
	})
)

var (
	// Volumes with secrets that are not encrypted.
	PlainVolumes = Volumes.Index("plain_secrets", func(v *structs.CSIVolume) mvcc.Key {
		plain := len(v.Secrets) > 0 || v.Deletion != nil && len(v.Deletion.Secrets) > 0
		return mvcc.KeyIf(plain, v.Namespace, v.ID)
	})

	// Attachments with secrets that are not encrypted.
	PlainAttachments = Attachments.Index("plain_secrets", func(a *structs.CSIAttachment) mvcc.Key {
		return mvcc.KeyIf(len(a.Secrets) > 0, a.Namespace, a.VolumeID, a.NodeID)
	})
)

// OnlySecretsMark is the key of the one row of its table.
const OnlySecretsMark = "sealed"

// SecretsMarks has one row, the mark that no row has plain secrets.
var SecretsMarks = mvcc.NewTable("secrets_marks", func(*cluster.SecretsMark) mvcc.Key {
	return mvcc.KeyOf(OnlySecretsMark)
})
