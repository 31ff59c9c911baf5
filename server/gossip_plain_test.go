package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/server/gossip"
	"berth/test/kit"
)

func TestServer_WarnsOfPlainGossipWhereTLSIsRequired(t *testing.T) {
	noLeaks(t)
	r, _ := joinable(t)
	cfg := r.cfg
	r.stop()
	cfg.Encrypt = ""
	err := os.Remove(filepath.Join(cfg.DataDir, gossip.KeyringFile))
	if err != nil {
		t.Fatal(err)
	}
	log := &kit.Output{}
	s, err := New(cfg, hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: log}))
	if err != nil {
		t.Fatal(err)
	}
	start(t, s).stop()
	if !strings.Contains(log.String(), "gossip is not encrypted") {
		t.Errorf("the log is %s", log.String())
	}
}
