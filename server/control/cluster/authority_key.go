package cluster

import (
	"context"
	"time"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/internal/pki"
	"berth/server/authority"
	"berth/server/control/loop"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// longestPause is the longest time between two attempts to take the authority in, and quietAttempts is how
// many fail at each first start of a cluster, before there is a root key.
const (
	longestPause  = 5 * time.Second
	quietAttempts = 3
)

// AuthorityKeyLoop takes the authority of the files of this server into the rows.
//
// It has the cluster keep the key of its certificate authority, while this server leads.
type AuthorityKeyLoop struct {
	loop.Common
	Files authority.Files
}

// Run stores the authority of the files of this server, if the cluster has none or if the root key that
// encrypts its key is lost. It needs a root key, which another loop makes. It tells each fault once. The
// files of a replaced authority are of no use.
func (l AuthorityKeyLoop) Run(ctx context.Context) {
	active := trust.ActiveAuthority(l.Store.Read())
	if active != nil && len(active.Formers) > 0 {
		return
	}

	told := ""
	pause := backoff.Backoff{Min: 100 * time.Millisecond, Max: longestPause}
	for failures := 1; ; failures++ {
		a, err := l.Files.Read()
		if err == nil && a == nil {
			return
		}

		if err == nil {
			err = l.store(ctx, a)
		}

		if err == nil {
			l.Logger.Info("the servers have the key of the certificate authority; keep a copy of its file "+
				"in a safe place, and delete the file here", "ca_key_file", l.Files.Key)
			return
		}

		if text := err.Error(); text != told && failures > quietAttempts && ctx.Err() == nil {
			told = text
			l.Logger.Warn("the servers do not have the key of the certificate authority yet; retrying",
				"error", err)
		}

		if !pause.Wait(ctx) {
			return
		}
	}
}

func (l AuthorityKeyLoop) store(ctx context.Context, a *pki.Authority) error {
	id := pki.AuthorityID(a.Cert)
	known := trust.ActiveAuthority(l.Store.Read())
	if known != nil && known.ID == id {
		return l.reseal(ctx, a)
	}

	if known != nil {
		return structs.Preconditionf("the cluster has the certificate authority %s, and tls.ca_key_file "+
			"is of %s; remove ca_key_file from the settings of this server", known.ID, id)
	}

	keyPEM, err := a.KeyPEM()
	if err != nil {
		return err
	}

	sealed, err := l.Keys.Seal(cluster.AuthorityPlace(id), keyPEM)
	if err != nil {
		return err
	}

	_, err = fsm.Propose(ctx, l.Proposer, fsm.AuthoritySet, &cluster.AuthorityRequest{
		ID:      id,
		CertPEM: string(a.CertPEM()),
		Key:     sealed,
		Now:     time.Now().UnixNano(),
	})
	return err
}

// reseal stores the key of the authority that signs again, if this server cannot open the root key that
// encrypts it: without that key no certificate is renewed, and all end within a day. It needs another root
// key, which an operator makes. It changes nothing while the key opens.
func (l AuthorityKeyLoop) reseal(ctx context.Context, a *pki.Authority) error {
	place := cluster.AuthorityPlace(pki.AuthorityID(a.Cert))
	for v := range trust.SealedValues(l.Store.Read()) {
		if v.Place != place {
			continue
		}
		_, err := l.Keys.Open(place, v.Value)
		if active := l.Keys.Active(); err == nil || active == "" || active == v.Value.KeyID {
			return err
		}
		return l.proposeReseal(ctx, v, a)
	}
	return structs.Conflictf("the authority was replaced meanwhile")
}

// proposeReseal replaces the encrypted key of an authority, unless it has changed since it was read.
func (l AuthorityKeyLoop) proposeReseal(ctx context.Context, was trust.SealedValue, a *pki.Authority) error {
	keyPEM, err := a.KeyPEM()
	if err != nil {
		return err
	}
	sealed, err := l.Keys.Seal(was.Place, keyPEM)
	if err != nil {
		return err
	}
	_, err = fsm.Propose(ctx, l.Proposer, fsm.Reseal, &cluster.ResealRequest{
		Values: []cluster.ResealedValue{{
			Table: was.Table,
			Key:   was.Key,
			Place: was.Place,
			Was:   trust.SealedDigest(was.Value),
			Value: *sealed,
		}},
	})
	return err
}
