package peertls

import (
	"testing"

	"berth/internal/pki"
	"berth/internal/pki/pkitest"
)

func TestKeys_TakeAnAuthorityBetween(t *testing.T) {
	a := pkitest.NewBetween(t, "global")
	server := open(t, a, pki.RoleServer, "s1")
	client := open(t, a, pki.RoleNode, "n1")
	addr := echo(t, server.Server(Roles(pki.RoleNode)))
	conn, err := dial(t, dialing(addr, client.Client(Roles(pki.RoleServer)), false))
	if err != nil {
		t.Fatal(err)
	}
	mustEcho(t, conn)
}
