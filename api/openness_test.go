package api

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/structs"
	"berth/structs/access"
	"berth/test/kit"
)

// TestCall_DeniesWithoutAServerAfterARestart: the servers are silent when the agent starts. Their last answer
// counts, and before the first one a member of a cluster with certificates denies.
func TestCall_DeniesWithoutAServerAfterARestart(t *testing.T) {
	logs := Route{Needs: access.NeedsReadLogs, serve: answer}
	silent := structs.Unavailablef("no server")
	for name, c := range map[string]struct {
		answers []error // of the servers before the restart: nil is that access control is off
		file    string
		joined  bool
		acl     bool
		served  bool
	}{
		"a new agent":                         {served: true},
		"a new agent that has joined":         {joined: true},
		"a new agent with the block":          {acl: true},
		"the last answer was open":            {answers: []error{nil}, joined: true, served: true},
		"the last answer was a denial":        {answers: []error{nil, structs.Deniedf("no")}, joined: true},
		"tokens are needed":                   {file: wordTokens},
		"tokens are needed, as a line":        {file: wordTokens + "\n"},
		"open, and the block was added since": {file: wordOpen, acl: true},
		"a damaged file":                      {file: "x"},
		"an empty file":                       {file: "\n"},
	} {
		path := filepath.Join(t.TempDir(), "open")
		if c.file != "" {
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		start := func(err error) error {
			call := newNeedsCall(t.Context(), &judge{err: err, open: err == nil}, "/")
			first := !c.acl && !c.joined
			call.wasOpen.load(path, first, hclog.NewNullLogger())
			if c.acl {
				call.wasOpen.Store(false)
			}
			_, got := serveAuthorized(call, logs)
			return got
		}
		for _, err := range c.answers {
			_ = start(err)
		}
		if err := start(silent); (err == nil) != c.served {
			t.Errorf("%s: %v, want it served: %t", name, err, c.served)
		}
	}
}

// The servers begin to need tokens while the disk of the agent is full.
func TestOpenness_OnAFullDiskDenies(t *testing.T) {
	for _, before := range []bool{true, false} { // the file has a word, or is not there
		dir := kit.MountDisk(t, "64k")
		path := filepath.Join(dir, "open")
		load := func() *openness {
			o := &openness{}
			o.load(path, true, hclog.NewNullLogger())
			return o
		}
		o := load()
		if before {
			o.note(true)
		}
		free := kit.FillDisk(t, dir, 0)
		o.note(false)
		if o.Load() || load().Load() {
			t.Errorf("a word before %t: requests pass without a token", before)
		}
		free()
		o.note(false)
		if text, err := os.ReadFile(path); string(text) != wordTokens+"\n" {
			t.Errorf("with space the file has %q (%v)", text, err)
		}
	}
}
