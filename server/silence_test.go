package server

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// A server that has reached no leader since its start hears from none since then, and not from one just now.
func TestLeader_CountsSilenceFromTheStart(t *testing.T) {
	c := testConfig(t)
	c.BootstrapExpect = 3
	c.RetryJoin = []string{"127.0.0.1:1"}
	s, err := New(c, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	s.began = s.began.Add(-time.Hour)
	startAny(t, s)
	_, _, _, silence := s.Leader()
	if silence < time.Hour {
		t.Errorf("after an hour without a leader the server counts %s", silence)
	}
}
