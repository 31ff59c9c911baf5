package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	public "github.com/hashicorp/nomad/api"
)

// TestPeersCommandLine_RunsItsExampleFiles registers each file that the peer writes for a new user, as it is.
// Those without the service mesh also run, with a program of this machine instead of an image.
func TestPeersCommandLine_RunsItsExampleFiles(t *testing.T) {
	peer, c := connectPeer(t)
	awaitReadyNode(t, c)
	const noToken = "berth issues no tokens"
	for _, v := range []struct {
		options []string
		id      string
		warning string
	}{
		{nil, "example", noToken},
		{[]string{"-short"}, "example", noToken},
		{[]string{"-connect"}, "countdash", ""},
		{[]string{"-connect", "-short"}, "countdash", ""},
	} {
		t.Run(strings.Join(append(v.options, v.id), " "), func(t *testing.T) {
			peer.t = t
			file := filepath.Join(t.TempDir(), "job.hcl")
			peer.run(append(append([]string{"job", "init"}, v.options...), file)...)
			peer.checkOutput(peer.run("job", "run", "-detach", file), "Job registration successful", v.warning)
			purge(t, c, v.id)
			if v.id == "example" {
				runWithoutImage(t, peer, c, file)
			}
		})
	}
}

// runWithoutImage runs a file of the peer with a program of this machine.
func runWithoutImage(t *testing.T, peer peerCLI, c *public.Client, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const script = `command = "/bin/sh"` + "\n" + `args = ["-c", "test -z $NOMAD_TOKEN && exec sleep 600"]`
	var lines []string
	for line := range strings.Lines(string(text)) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "driver":
			line = "driver = \"exec\"\n"
		case "image":
			line = script + "\n"
		case "ports", "auth_soft_fail", "min_healthy_time":
			continue
		}
		lines = append(lines, line)
	}
	err = os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	peer.run("job", "run", "-detach", file)
	awaitAnswer(t, "the task of the example", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		list, meta, err := c.Jobs().Allocations("example", false, q)
		return len(list) == 1 && list[0].ClientStatus == "running", meta, err
	})
	purge(t, c, "example")
}

// purge stops a job and deletes it.
func purge(t *testing.T, c *public.Client, id string) {
	t.Helper()
	_, _, err := c.Jobs().Deregister(id, true, nil)
	checkNoError(t, "purging "+id, err)
}
