// Package renewal renews the certificate of an agent before it ends, where the servers are the authority.
package renewal

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff"
	"berth/internal/peertls"
)

// interval is the time between two looks at the certificate, and between two attempts to renew it.
const interval = time.Minute

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
	for {
		err := r.Step(ctx, time.Now())
		fault := ""
		if err != nil {
			fault = err.Error()
		}
		if fault != "" && fault != told && ctx.Err() == nil {
			r.Logger.Warn("failed to renew the TLS certificate, retrying every minute",
				"expires", r.Keys.Expires(), "error", err)
		}
		told = fault
		if !backoff.Sleep(ctx, interval) {
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
