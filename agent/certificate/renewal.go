// Package certificate renews the certificate of an agent before it ends, where the servers are the authority.
// It tells the keys of the agent which certificates are revoked, and has them close the open connections of
// those. A node also learns which authorities the servers trust.
package certificate

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
	// hurriedInterval is the least time between two attempts to renew a certificate that has ended, or one
	// while the authorities are others. The most is twice that, or Spread more: the machines do not call all
	// at once.
	hurriedInterval = 5 * time.Second
)

// Renewer renews the certificate of an agent.
type Renewer struct {
	Keys *peertls.Keys
	// Sign has a request for a certificate signed, with the key and the identity of the present one. It
	// returns the certificate and the authorities to trust, in PEM.
	Sign   func(ctx context.Context, csr []byte) (cert, authorities string, err error)
	Logger hclog.Logger

	// Trusted returns the IDs of the authorities that the servers trust, the one that signs first. It returns
	// none if they are not known, or if the servers sign nothing.
	Trusted func() []string
	// News has a value when Trusted may have changed.
	News <-chan struct{}
	// Spread returns the longest time between News and a renewal: many machines do not renew at once.
	Spread func() time.Duration
}

// Run renews the certificate when two thirds of its life are over, the authorities change, or the clock is
// behind its begin, until ctx ends.
func (r Renewer) Run(ctx context.Context) {
	told := ""
	if r.Keys.Lapsed(time.Now()) {
		r.Logger.Warn("the TLS certificate of this agent is not valid now, and other agents reject it; "+
			"waiting until it is renewed", "certificate", r.Keys.Validity(time.Now()))
	}

	for {
		err := r.Step(ctx, time.Now())
		r.Keys.NoteRenewal(err)
		fault := ""
		if err != nil {
			fault = err.Error()
		}

		// An outage of an hour has one line in the log for each cause, not one for each attempt.
		if fault != "" && fault != told && ctx.Err() == nil {
			r.Logger.Warn("failed to renew the TLS certificate, retrying",
				"expires", r.Keys.Expires(), "error", err)
		}

		told = fault
		pause := interval
		if now := time.Now(); r.Keys.Lapsed(now) || r.Keys.Premature(now) || !r.follows() {
			pause = hurriedInterval + rand.N(max(hurriedInterval, r.Spread()))
		}

		if !r.wait(ctx, pause) {
			return
		}
	}
}

// wait waits for some time, or for other authorities. It returns false when ctx has ended.
func (r Renewer) wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		case <-r.News:
		}

		if !r.follows() {
			return backoff.Sleep(ctx, rand.N(max(r.Spread(), 1)))
		}
	}
}

// follows reports whether this agent has the authorities that the servers trust, as far as it knows.
func (r Renewer) follows() bool {
	trusted := r.Trusted()
	return len(trusted) == 0 || r.Keys.Follows(trusted)
}

// Step renews the certificate if it is due at a time, if it has not begun, or if the authorities have
// changed.
func (r Renewer) Step(ctx context.Context, now time.Time) error {
	if now.Before(r.Keys.RenewAt()) && !r.Keys.Premature(now) && r.follows() {
		return nil
	}
	return r.renew(ctx)
}

// renew has the next certificate signed, and takes it up.
func (r Renewer) renew(ctx context.Context) error {
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
