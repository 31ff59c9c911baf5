package control

import (
	"context"
	"time"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/internal/pki"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/admin"
)

// authorityPause is the longest time between two attempts to take the authority in, and quietAttempts are
// those that fail at each first start of a cluster, before there is a root key.
const (
	authorityPause = 5 * time.Second
	quietAttempts  = 3
)

// takeAuthority stores the authority of the files of this server, if the cluster has none. It needs a root
// key, which another loop makes. It tells each fault once. The files of a replaced authority are of no use.
func (d Deps) takeAuthority(ctx context.Context) {
	active := trust.ActiveAuthority(d.Store.Read())
	if active != nil && len(active.Formers) > 0 {
		return
	}

	told := ""
	pause := backoff.Backoff{Min: 100 * time.Millisecond, Max: authorityPause}
	for failures := 1; ; failures++ {
		a, err := d.Config.Authority.Read()
		if err == nil && a == nil {
			return
		}

		if err == nil {
			err = d.storeAuthority(ctx, a)
		}

		if err == nil {
			d.Logger.Info("the servers have the key of the certificate authority; keep a copy of its file "+
				"in a safe place, and delete the file here", "ca_key_file", d.Config.Authority.Key)
			return
		}

		if text := err.Error(); text != told && failures > quietAttempts && ctx.Err() == nil {
			told = text
			d.Logger.Warn("the servers do not have the key of the certificate authority yet; retrying",
				"error", err)
		}

		if !pause.Wait(ctx) {
			return
		}
	}
}

func (d Deps) storeAuthority(ctx context.Context, a *pki.Authority) error {
	id := pki.AuthorityID(a.Cert)
	known := trust.ActiveAuthority(d.Store.Read())
	if known != nil && known.ID == id {
		return nil
	}

	if known != nil {
		return structs.Preconditionf("the cluster has the certificate authority %s, and tls.ca_key_file "+
			"is of %s; remove ca_key_file from the settings of this server", known.ID, id)
	}

	keyPEM, err := a.KeyPEM()
	if err != nil {
		return err
	}

	sealed, err := d.Keys.Seal(admin.AuthorityPlace(id), keyPEM)
	if err != nil {
		return err
	}

	_, err = fsm.Propose(ctx, d.Proposer, fsm.AuthoritySet, &admin.AuthorityRequest{
		ID:      id,
		CertPEM: string(a.CertPEM()),
		Key:     sealed,
		Now:     time.Now().UnixNano(),
	})
	return err
}
