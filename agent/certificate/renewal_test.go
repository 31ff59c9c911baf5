package certificate

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
)

// renewing returns the renewer of a node whose certificate was signed some time ago. signed counts the
// requests.
func renewing(t *testing.T, age time.Duration) (r Renewer, signed *int) {
	t.Helper()
	a := pkitest.New(t, "global")
	files := a.FilesOf(t, pki.Request{
		Identity: pki.Identity{Region: "global", Role: pki.RoleNode, ID: "n1"},
		From:     time.Now().Add(-age),
		Life:     pkitest.Life,
	})
	cfg := peertls.Config{
		Mode:     peertls.ModeRequire,
		CAFile:   a.CAFile,
		CertFile: files.Cert,
		KeyFile:  files.Key,
	}
	keys, err := peertls.Open(cfg, "global", pki.RoleNode, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	signed = new(int)
	return Renewer{
		Keys:    keys,
		Logger:  hclog.NewNullLogger(),
		Trusted: func() []string { return nil },
		Spread:  func() time.Duration { return time.Minute },
		Sign: func(_ context.Context, der []byte) (string, string, error) {
			*signed++
			csr, err := pki.ParseCSR(der)
			if err != nil {
				return "", "", err
			}
			cert, err := a.Sign(csr.Public, pki.Request{
				Identity: csr.Identity,
				From:     time.Now(),
				Life:     pkitest.Life,
			})
			return string(cert), string(a.CertPEM()), err
		},
	}, signed
}

func TestStep_RenewsOnceWhenTwoThirdsAreOver(t *testing.T) {
	r, signed := renewing(t, 20*time.Hour)
	former := r.Keys.Expires()
	for range 2 {
		err := r.Step(t.Context(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
	}
	if *signed != 1 || !r.Keys.Expires().After(former) {
		t.Errorf("%d requests; the certificate ends at %s", *signed, r.Keys.Expires())
	}
}

func TestStep_LeavesAYoungCertificate(t *testing.T) {
	r, signed := renewing(t, 10*time.Hour)
	err := r.Step(t.Context(), time.Now())
	if err != nil || *signed != 0 {
		t.Errorf("%d requests, %v", *signed, err)
	}
}

func TestRun_RenewsAtOnceAndEnds(t *testing.T) {
	r, signed := renewing(t, 20*time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	sign := r.Sign
	r.Sign = func(ctx context.Context, der []byte) (string, string, error) {
		defer cancel()
		return sign(ctx, der)
	}
	r.Run(ctx)
	if *signed != 1 {
		t.Errorf("%d requests; expected one", *signed)
	}
}

func mustCSR(t *testing.T, r Renewer) []byte {
	t.Helper()
	csr, err := r.Keys.CSR()
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

func TestStep_FollowsOtherAuthorities(t *testing.T) {
	r, signed := renewing(t, 0)
	_, file, err := r.Sign(t.Context(), mustCSR(t, r))
	*signed = 0
	if err != nil {
		t.Fatal(err)
	}
	certs, err := pki.ParseCertificates([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	id := pki.AuthorityID(certs[0])
	for _, c := range []struct {
		trusted []string
		want    int
	}{
		{nil, 0},
		{[]string{id}, 0},
		{[]string{"new", id}, 1},
	} {
		r.Trusted = func() []string { return c.trusted }
		err := r.Step(t.Context(), time.Now())
		if err != nil || *signed != c.want {
			t.Errorf("%q are trusted: %d requests, %v; expected %d", c.trusted, *signed, err, c.want)
		}
	}
}

// The machines of a cluster do not renew all at once, and do not wait for the next look either.
func TestRun_SpreadsTheRenewalsForAnotherAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := renewing(t, 0)
		var known atomic.Bool
		news := make(chan struct{}, 1)
		r.News = news
		r.Trusted = func() []string {
			if known.Load() {
				return []string{"new"}
			}
			return nil
		}
		r.Spread = func() time.Duration { return 20 * time.Second }
		begin := time.Now()
		var waited []time.Duration
		ctx, cancel := context.WithCancel(t.Context())
		r.Sign = func(context.Context, []byte) (string, string, error) {
			waited = append(waited, time.Since(begin))
			cancel()
			return "", "", errors.New("enough")
		}
		news <- struct{}{} // no news at all
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx) })
		synctest.Wait()
		known.Store(true)
		news <- struct{}{}
		running.Wait()
		if len(waited) != 1 || waited[0] >= 20*time.Second || waited[0] == 0 {
			t.Errorf("renewed after %v; expected once, after less than 20 seconds", waited)
		}
	})
}

// The first attempt may come too early: the server has not opened the root key yet, or there is no leader.
func TestRun_RepeatsARenewalForAnotherAuthoritySoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := renewing(t, 0)
		r.Trusted = func() []string { return []string{"new"} }
		r.Spread = func() time.Duration { return 20 * time.Second }
		var attempts []time.Time
		ctx, cancel := context.WithCancel(t.Context())
		r.Sign = func(context.Context, []byte) (string, string, error) {
			attempts = append(attempts, time.Now())
			if len(attempts) == 2 {
				cancel()
			}
			return "", "", errors.New("not yet")
		}
		r.Run(ctx)
		if pause := attempts[1].Sub(attempts[0]); pause < 5*time.Second || pause >= 25*time.Second {
			t.Errorf("the second attempt was %s after the first", pause)
		}
	})
}

func TestRun_NotesTheFaultForTheWarningOfTheEnd(t *testing.T) {
	r, _ := renewing(t, 20*time.Hour)
	sign := r.Sign
	for _, want := range []error{errors.New("no leader"), nil} {
		ctx, cancel := context.WithCancel(t.Context())
		r.Sign = func(ctx context.Context, der []byte) (string, string, error) {
			defer cancel()
			if want != nil {
				return "", "", want
			}
			return sign(ctx, der)
		}
		r.Run(ctx)
		if got := r.Keys.RenewalFault(); got != want {
			t.Errorf("got %v; expected %v", got, want)
		}
	}
}
