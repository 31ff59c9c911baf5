package agent

import (
	"os"
	"strings"
	"testing"

	"berth/api"
	"berth/api/operator"
	"berth/internal/pki"
	"berth/structs"
)

// socketOf returns a client over the operator socket of an agent.
func socketOf(t *testing.T, a *Agent) *api.Client {
	t.Helper()
	c := api.NewClient(api.ClientConfig{Address: "unix://" + a.config().OperatorSocket})
	t.Cleanup(c.Close)
	return c
}

// serialOnDisk returns the serial number of the certificate in the file of a machine.
func (m *siteMachine) serialOnDisk(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(m.cfg.TLS.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := pki.ParseCertificates(text)
	if err != nil {
		t.Fatal(err)
	}
	return pki.Serial(certs[0])
}

// A node shows and renews its certificate, also for a server that passes the request on.
func TestIdentity_OfANodeIsRenewedOnARequest(t *testing.T) {
	s := newSite(t)
	n := s.addNode("n1")
	<-n.running.client.Registered()
	near := socketOf(t, n.running)
	first, err := operator.NodeIdentity(t.Context(), near, "")
	if err != nil {
		t.Fatal(err)
	}
	claims := first.Claims
	notice := int64((pki.MachineLife / 3).Seconds())
	if claims.Subject != "spiffe://global/node/n1" || claims.Serial != n.serialOnDisk(t) || claims.NodeID != "n1" ||
		!strings.HasPrefix(claims.Issuer, "CN=") || claims.RenewAt != claims.Expires-notice {
		t.Errorf("the identity is %+v", claims)
	}

	var far *api.NodeIdentity
	server := socketOf(t, s.leader())
	awaitCondition(t, "the server passes a renewal on", func() bool {
		far, err = operator.RenewNodeIdentity(t.Context(), server, "n1")
		return err == nil
	})
	if far.Claims.Serial == claims.Serial || far.Claims.Serial != n.serialOnDisk(t) ||
		far.Claims.Subject != claims.Subject {
		t.Errorf("the renewed identity is %+v after %+v", far.Claims, claims)
	}
	again, err := operator.NodeIdentity(t.Context(), server, "n1")
	if err != nil || again.Claims.Serial != far.Claims.Serial {
		t.Errorf("the server shows %+v, %v", again, err)
	}

	_, err = operator.NodeIdentity(t.Context(), server, "")
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("a server without a node answers %v", err)
	}
}
