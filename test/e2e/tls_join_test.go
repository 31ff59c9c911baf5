package e2e

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/cluster"
)

// runOverSocket runs a command that calls the agent over its operator socket.
func (a *agent) runOverSocket(args ...string) (string, error) {
	return a.run(append(args, "-address", "unix://"+a.operatorSocket())...)
}

// The servers are the authority: the files of tls init make the first server, and a node gets its certificate
// for a token, once. Nothing else is needed on either machine.
func TestTLSJoin_ANodeGetsItsCertificateForAToken(t *testing.T) {
	t.Parallel()
	s := newAgent(t, "s1", "-bootstrap-expect", "1")
	etc := filepath.Join(s.dir, "etc")
	s.args = append(s.args, "-config", etc)
	s.must("tls", "init", "-key-saved", "-dir", etc, "-id", "s1")
	s.launch()
	token := ""
	eventually(t, "a join token", func() error {
		out, err := s.runOverSocket("node", "join-token", "create")
		token = strings.TrimSpace(out)
		return err
	})

	n := newAgent(t, "n1")
	etc = filepath.Join(n.dir, "etc")
	n.args = append(n.args, "-config", etc)
	server := net.JoinHostPort("127.0.0.1", strconv.Itoa(s.rpc))
	err := n.runJoin(token, "-dir", etc, server)
	if err != nil {
		t.Fatal(err)
	}
	n.launch()
	eventually(t, "the node is ready", func() error {
		out, err := s.runOverSocket("node", "status")
		if err == nil && !strings.Contains(out, "ready") {
			err = fmt.Errorf("the nodes are\n%s", out)
		}
		return err
	})
	mustRejectPlain(t, s.rpc)

	err = n.runJoin(token, "-dir", filepath.Join(n.dir, "again"), server)
	denied := structs.KindDenied.ExitCode()
	if exitCode(err) != denied || !strings.Contains(err.Error(), "the join token is not valid") {
		t.Errorf("a join with the same token: %v, want the exit code %d", err, denied)
	}
}

// A token that is revoked lets nobody join, and the lists have the others.
func TestTLSJoin_ARevokedTokenIsWorthNothing(t *testing.T) {
	t.Parallel()
	s := newAgent(t, "s1", "-bootstrap-expect", "1")
	etc := filepath.Join(s.dir, "etc")
	s.args = append(s.args, "-config", etc)
	s.must("tls", "init", "-key-saved", "-dir", etc, "-id", "s1")
	s.launch()
	node := joinTokenOf(s, "node")
	server := joinTokenOf(s, "server")
	if got := listedTokens(s, "server"); len(got) != 1 || got[0] != server.ID {
		t.Errorf("the tokens of servers are %v, want %s", got, server.ID)
	}
	out, err := s.runOverSocket("node", "join-token", "revoke", node.ID)
	if err != nil || out != "The join token "+node.ID+" is deleted\n" {
		t.Errorf("revoke: %v, %s", err, out)
	}
	if got := listedTokens(s, "node"); len(got) != 0 {
		t.Errorf("the tokens of nodes are %v", got)
	}
	if got := listedTokens(s, "server"); len(got) != 1 {
		t.Errorf("after the end of the one for nodes, the tokens of servers are %v", got)
	}

	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(s.rpc))
	err = s.runJoin(node.Token, "-dir", filepath.Join(s.dir, "node"), addr)
	if exitCode(err) != structs.KindDenied.ExitCode() ||
		!strings.Contains(err.Error(), "the join token is not valid") {
		t.Errorf("a join with the revoked token: %v", err)
	}
	_, err = s.runOverSocket("node", "join-token", "revoke", node.ID)
	if exitCode(err) != structs.KindNotFound.ExitCode() {
		t.Errorf("a second revoke: %v", err)
	}
}

// joinTokenOf creates a token for a role.
func joinTokenOf(s *agent, role string) *cluster.JoinTokenCreateResponse {
	s.t.Helper()
	var made *cluster.JoinTokenCreateResponse
	eventually(s.t, "a join token", func() error {
		out, err := s.runOverSocket(role, "join-token", "create", "-json")
		if err == nil {
			made = decode[*cluster.JoinTokenCreateResponse](s.t, out)
		}
		return err
	})
	return made
}

// listedTokens returns the IDs of the tokens for a role.
func listedTokens(s *agent, role string) (ids []string) {
	s.t.Helper()
	out, err := s.runOverSocket(role, "join-token", "list", "-json")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, t := range decode[[]*cluster.JoinToken](s.t, out) {
		ids = append(ids, t.ID)
	}
	return ids
}
