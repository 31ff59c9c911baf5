package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	public "github.com/hashicorp/nomad/api"
)

// TestPeersCommandLine_RegistersItsExampleFiles registers each file that the peer writes for a new user, as
// it is, and reads the warnings. The tests of the built binary run the files, with docker and Consul.
func TestPeersCommandLine_RegistersItsExampleFiles(t *testing.T) {
	t.Parallel()
	peer, c := connectPeer(t)
	awaitReadyNode(t, c)
	awaitSigningKey(t, c)
	for _, v := range []struct {
		options []string
		id      string
	}{
		{nil, "example"},
		{[]string{"-short"}, "example"},
		{[]string{"-connect"}, "countdash"},
		{[]string{"-connect", "-short"}, "countdash"},
	} {
		t.Run(strings.Join(append(v.options, v.id), " "), func(t *testing.T) {
			peer.t = t
			file := filepath.Join(t.TempDir(), "job.hcl")
			peer.run(append(append([]string{"job", "init"}, v.options...), file)...)
			output := peer.run("job", "run", "-detach", file)
			peer.checkOutput(output, "Job registration successful")
			if strings.Contains(output, "Warning") {
				t.Errorf("the job has a warning: %s", output)
			}
			purge(t, c, v.id)
		})
	}
}

// TestPeersCommandLine_WritesAJobFromATemplate stores a job file in the variable where the peer looks for
// templates, and registers the file that the peer makes of it.
func TestPeersCommandLine_WritesAJobFromATemplate(t *testing.T) {
	t.Parallel()
	peer, c := connectPeer(t)
	awaitReadyNode(t, c)
	v := public.NewVariable("nomad/job-templates/sleep")
	v.Items["template"] = sleeper("0", "")
	v.Items["description"] = "a job that sleeps"
	_, _, err := c.Variables().Create(v, nil)
	checkNoError(t, "storing the template", err)

	peer.checkOutput(peer.run("job", "init", "-list-templates"), "-template=<template>", "\n  sleep\n")
	file := filepath.Join(t.TempDir(), "job.hcl")
	peer.checkOutput(peer.run("job", "init", "-template", "sleep", file), "job template from sleep")
	text, err := os.ReadFile(file)
	if err != nil || string(text) != v.Items["template"] {
		t.Errorf("the peer wrote %q, %v", text, err)
	}
	peer.checkOutput(peer.run("job", "run", "-detach", file), "Job registration successful")
	purge(t, c, "sleeper")
	missing := filepath.Join(t.TempDir(), "job.hcl")
	peer.checkOutput(peer.exits(1, "job", "init", "-template", "none", missing), "ariable not found")
}

// purge stops a job and deletes it.
func purge(t *testing.T, c *public.Client, id string) {
	t.Helper()
	_, _, err := c.Jobs().Deregister(id, true, nil)
	checkNoError(t, "purging "+id, err)
}

// awaitSigningKey waits until the servers can sign identities. A job that is registered before has a warning.
func awaitSigningKey(t *testing.T, c *public.Client) {
	t.Helper()
	awaitAnswer(t, "a signing key", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		var set struct {
			Keys []struct {
				KeyID string `json:"kid"`
			} `json:"keys"`
		}
		_, err := c.Raw().Query("/.well-known/jwks.json", &set, q)
		return len(set.Keys) > 0, nil, err
	})
}
