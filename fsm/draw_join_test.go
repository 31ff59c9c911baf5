package fsm

import (
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

func drawAuthority(d dice, tx *state.ReadTx) ([]byte, error) {
	r := &cluster.AuthorityRequest{
		ID:      d.of("a", "b", "c"),
		CertPEM: "cert",
		Key:     &structs.Sealed{KeyID: d.of("k1", "k2", "k3"), Data: []byte{1}},
		Now:     d.now().Now,
	}
	active := trust.ActiveAuthority(tx)
	if active != nil {
		r.FormerID = active.ID
		r.CrossPEM = "cross"
	}
	return AuthoritySet.Encode(r)
}

func drawAuthorityRemoval(d dice, _ *state.ReadTx) ([]byte, error) {
	return AuthorityRemove.Encode(&cluster.AuthorityRemoveRequest{ID: d.of("a", "b", "c")})
}

func drawJoinToken(d dice, _ *state.ReadTx) ([]byte, error) {
	return JoinTokenPut.Encode(&cluster.JoinTokenRequest{
		ID:         d.of("t1", "t2", "t3"),
		Hash:       []byte{1},
		Role:       cluster.JoinNode,
		NodePool:   d.of("", "gpu"),
		Uses:       1 + d.upTo(2),
		ExpireTime: d.now().Now + int64(d.upTo(3)),
		Now:        d.now().Now,
		Authority:  d.of("", "a", "b", "c"),
	})
}

func drawJoinTokenDelete(d dice, _ *state.ReadTx) ([]byte, error) {
	return JoinTokenDelete.Encode(&cluster.JoinTokenDeleteRequest{ID: d.of("t1", "t2", "t3")})
}

func drawCertificate(d dice, _ *state.ReadTx) ([]byte, error) {
	return MachineCertificateSet.Encode(&cluster.MachineCertificateRequest{
		TokenID:   d.of("", "t1", "t2", "t3"),
		TokenHash: []byte{1},
		Role:      cluster.JoinNode,
		ID:        d.node(),
		NodePool:  d.of("", "gpu"),
		Serial:    "1",
		KeyHash:   []byte(d.of("k1", "k2")),
		NotAfter:  d.now().Now,
		Now:       d.now().Now,
	})
}

func drawRevocation(d dice, _ *state.ReadTx) ([]byte, error) {
	if d.flip() {
		return Revoke.Encode(&cluster.CertificateRevokeRequest{Serial: d.of("1", "2"), WriteOptions: d.now()})
	}
	return Revoke.Encode(&cluster.CertificateRevokeRequest{
		Role:         cluster.JoinNode,
		Name:         d.node(),
		WriteOptions: d.now(),
	})
}

func drawUnrevocation(d dice, _ *state.ReadTx) ([]byte, error) {
	id := cluster.MachineRevocationID(cluster.JoinNode, d.node())
	return Unrevoke.Encode(&cluster.CertificateUnrevokeRequest{ID: d.of(id, "serial-1", "serial-2")})
}
