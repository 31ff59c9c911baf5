package e2e

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/structs"
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
