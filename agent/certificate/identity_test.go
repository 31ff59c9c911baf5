package certificate

import (
	"context"
	"errors"
	"strings"
	"testing"

	"berth/structs"
)

func TestIdentity_DescribesTheCertificateAndItsFault(t *testing.T) {
	r, signed := renewing(t, 0)
	r.Keys.NoteRenewal(errors.New("no leader"))
	found, err := r.Identity(t.Context(), Order{NodeID: "n1"})
	if err != nil || *signed != 0 {
		t.Fatalf("%d requests, %v", *signed, err)
	}
	leaf := r.Keys.Certificate()
	c := found.Claims
	if c.Subject != "spiffe://global/node/n1" || c.Serial != r.Keys.Serial() || c.Issuer != leaf.Issuer.String() ||
		c.NotBefore != leaf.NotBefore.Unix() || c.Expires != leaf.NotAfter.Unix() || c.NodeID != "n1" ||
		len(c.Names) != len(leaf.DNSNames)+len(leaf.IPAddresses) || len(c.Names) == 0 ||
		c.RenewAt != 0 || c.RenewalFault != "no leader" {
		t.Errorf("got %+v", c)
	}
	found, err = r.Identity(t.Context(), Order{Renews: true})
	if err != nil || found.Claims.RenewAt != r.Keys.RenewAt().Unix() {
		t.Errorf("an agent that renews tells %+v, %v", found, err)
	}
}

func TestIdentity_IsRenewedAlthoughNoneIsDue(t *testing.T) {
	r, signed := renewing(t, 0)
	r.Keys.NoteRenewal(errors.New("no leader"))
	former := r.Keys.Serial()
	found, err := r.Identity(t.Context(), Order{Renews: true, Renew: true})
	if err != nil || *signed != 1 {
		t.Fatalf("%d requests, %v", *signed, err)
	}
	if c := found.Claims; c.Serial == former || c.Serial != r.Keys.Serial() || c.RenewalFault != "" {
		t.Errorf("got %+v", c)
	}
}

func TestIdentity_TellsWhyItIsNotRenewed(t *testing.T) {
	r, _ := renewing(t, 0)
	_, err := r.Identity(t.Context(), Order{Renew: true})
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "tls { renew = true }") {
		t.Errorf("an agent that does not renew answers %v", err)
	}

	away := structs.Unavailablef("no leader")
	r.Sign = func(context.Context, []byte) (string, string, error) { return "", "", away }
	_, err = r.Identity(t.Context(), Order{Renews: true, Renew: true})
	if !errors.Is(err, away) || r.Keys.RenewalFault() == nil {
		t.Errorf("a failed renewal answers %v and notes %v", err, r.Keys.RenewalFault())
	}

	r.Keys = nil
	_, err = r.Identity(t.Context(), Order{})
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "node intro create") {
		t.Errorf("an agent without a certificate answers %v", err)
	}
}
