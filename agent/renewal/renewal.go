// Package renewal renews the certificate of an agent before it ends, where the servers are the authority.
package renewal

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff"
	"berth/internal/peertls"
)

const (
	// interval is the time between two looks at the certificate, and between two attempts to renew it.
	interval = time.Minute
	// lapsedInterval is the least time between two attempts to renew a certificate that has ended, and half of
	// the most: the machines of a site that was off do not call all at once.
	lapsedInterval = 5 * time.Second
)

// Renewer renews the certificate of an agent.
type Renewer struct {
	Keys *peertls.Keys
	// Sign has a request for a certificate signed, with the key and the identity of the present one. It returns
	// the certificate and the authorities to trust, in PEM.
	Sign   func(ctx context.Context, csr []byte) (cert, authorities string, err error)
	Logger hclog.Logger
}

// Run renews the certificate when two thirds of its life are over, until ctx ends.
func (r Renewer) Run(ctx context.Context) {
	told := ""
	if r.Keys.Lapsed(time.Now()) {
		r.Logger.Warn("the TLS certificate of this agent has ended, and other agents reject it; waiting until it "+
			"is renewed", "expired", r.Keys.Expires())
	}
	for {
		err := r.Step(ctx, time.Now())
		fault := ""
		if err != nil {
			fault = err.Error()
		}
		if fault != "" && fault != told && ctx.Err() == nil {
			r.Logger.Warn("failed to renew the TLS certificate, retrying",
				"expires", r.Keys.Expires(), "error", err)
		}
		told = fault
		pause := interval
		if r.Keys.Lapsed(time.Now()) {
			pause = lapsedInterval + rand.N(lapsedInterval)
		}
		if !backoff.Sleep(ctx, pause) {
			return
		}
	}
}

// Step renews the certificate if it is due at a time.
func (r Renewer) Step(ctx context.Context, now time.Time) error {
	if now.Before(r.Keys.RenewAt()) {
		return nil
	}
	csr, err := r.Keys.CSR()
	if err != nil {
		return err
	}
	cert, authorities, err := r.Sign(ctx, csr)
	if err != nil {
		return err
	}
	return r.Keys.Replace([]byte(cert), []byte(authorities))
}
