package renewal

import (
	"context"
	"testing"
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
		Keys:   keys,
		Logger: hclog.NewNullLogger(),
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
