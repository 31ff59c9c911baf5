package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestTaskAPI_ReachesTheServersThroughTheNode has a task read its variable over its socket on a node that is
// no server, where each port asks for certificates. The node has no right to read it.
func TestTaskAPI_ReachesTheServersThroughTheNode(t *testing.T) {
	t.Parallel()
	s := newAgent(t, "s1", "-bootstrap-expect", "1")
	etc := filepath.Join(s.dir, "etc")
	const acl = "acl {\n  enabled = true\n}\n"
	s.args = append(s.args, "-config", etc, "-config", s.writeFile("acl.hcl", acl))
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
	n.args = append(n.args, "-config", etc, "-config", n.writeFile("acl.hcl", acl))
	err := n.runJoin(token, "-dir", etc, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.rpc)))
	if err != nil {
		t.Fatal(err)
	}
	n.launch()

	for _, job := range []string{"asks", "other"} {
		eventually(t, "the variable of "+job, func() error {
			_, err := s.runOverSocket("var", "put", "nomad/jobs/"+job, "word=belongs-to-"+job)
			return err
		})
	}
	file := s.writeFile("asks.hcl", askJob("asks", "exec", "nobody", ""))
	_, err = s.runOverSocket("job", "run", "-detach", file)
	if err != nil {
		t.Fatal(err)
	}

	printed := ""
	eventually(t, "the task has asked", func() error {
		files, _ := filepath.Glob(n.data("alloc", "*", "alloc", "logs", "t.stdout.0"))
		if len(files) != 1 {
			return fmt.Errorf("the outputs are %q", files)
		}
		text, err := os.ReadFile(files[0])
		printed = string(text)
		if err == nil && !strings.HasSuffix(printed, "asked\n") {
			err = fmt.Errorf("the task printed %q", printed)
		}
		return err
	})
	n.checkPrinted(printed, "asks")
}
