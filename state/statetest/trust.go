package statetest

import (
	"fmt"

	"pgregory.net/rapid"

	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// JoinToken is a token for nodes, which ends at 100. Its hash is its ID.
func JoinToken(id string, uses int) *cluster.JoinTokenRequest {
	return &cluster.JoinTokenRequest{
		ID:         id,
		Hash:       []byte(id),
		Role:       cluster.JoinNode,
		Uses:       uses,
		ExpireTime: 100,
		Now:        1,
	}
}

// Certificate is the certificate of a node with a key, which ends at 1000. token is "" for a renewal.
func Certificate(token, id, key string) *cluster.MachineCertificateRequest {
	return &cluster.MachineCertificateRequest{
		TokenID:   token,
		TokenHash: []byte(token),
		Role:      cluster.JoinNode,
		ID:        id,
		Serial:    "1",
		KeyHash:   []byte(key),
		NotAfter:  1000,
		Now:       2,
	}
}

// Authority is the first authority of a cluster, or one that has replaced another one.
func Authority(id string, former ...string) *cluster.AuthorityRequest {
	r := &cluster.AuthorityRequest{
		ID:      id,
		CertPEM: "certificate of " + id,
		Key:     &structs.Sealed{KeyID: "k", Data: []byte(id)},
		Now:     1,
	}
	if len(former) > 0 {
		r.FormerID = former[0]
		r.CrossPEM = "of " + id + " by " + former[0]
	}
	return r
}

// RevokeNode revokes the certificates of a node.
func RevokeNode(id string, now int64) *cluster.CertificateRevokeRequest {
	r := &cluster.CertificateRevokeRequest{Role: cluster.JoinNode, Name: id}
	r.Now = now
	return r
}

// NeedKey makes a root key active, unless there is one of that ID.
func (w *Fixture) NeedKey(id string) {
	w.T.Helper()
	tx := w.Store.Read()
	if trust.RootKey(tx, id) != nil {
		return
	}
	active := ""
	if k := trust.ActiveRootKey(tx); k != nil {
		active = k.KeyID
	}
	w.RootKey(id, active, false)
}

// Keyed is a fixture with the root key k.
func Keyed(t rapid.TB) *Fixture {
	t.Helper()
	w := New(t)
	w.NeedKey("k")
	return w
}

// RootKey stores a key that replaces another one.
func (w *Fixture) RootKey(id, was string, full bool) {
	w.T.Helper()
	Do(w, trust.RootKeyAdd, RootKey(id, was, full))
}

// RootKey is the request to store a key that replaces another one.
func RootKey(id, was string, full bool) *cluster.RootKeyAddRequest {
	return &cluster.RootKeyAddRequest{
		KeyID:   id,
		Was:     was,
		Full:    full,
		Wrapped: []byte("wrapped"),
		KEK:     "kek",
		Digest:  []byte(id),
	}
}

// Tokens is a payload with a token for each "task accessor" of an allocation on n1.
func (w *Fixture) Tokens(alloc string, names ...[2]string) *access.SITokenAccessors {
	p := &access.SITokenAccessors{ClusterID: fmt.Sprint("cluster ", w.Index), WriteOptions: w.Now()}
	for _, n := range names {
		p.Accessors = append(p.Accessors, &access.SITokenAccessor{
			AllocID:    alloc,
			TaskName:   n[0],
			AccessorID: n[1],
			NodeID:     "n1",
		})
	}
	return p
}
