package cluster_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/server"
	"berth/server/gossip"
	"berth/structs"
	rows "berth/structs/cluster"
	"berth/test/cluster"
)

// serverLog keeps the log of servers.
type serverLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends a part of the log.
func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns the log since the last take.
func (l *serverLog) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

func (l *serverLog) logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: l})
}

// knowsAlive reports whether a server knows a number of servers, and all of them are alive.
func knowsAlive(s *cluster.Server, want int) bool {
	alive := 0
	for _, m := range s.Current().Members() {
		if m.Status == "alive" {
			alive++
		}
	}
	return alive == want && len(s.Current().Members()) == want
}

// awaitMembers waits until each of some servers knows all of them.
func awaitMembers(t *testing.T, c *cluster.Cluster, servers []*cluster.Server) {
	t.Helper()
	for _, s := range servers {
		c.Await(s.Name+" knows all servers", func() bool { return knowsAlive(s, len(servers)) })
	}
}

// awaitNews waits until each server knows all, and the version of one that was restarted. They have heard of
// it since the restart then, and no longer suspect it.
func awaitNews(t *testing.T, c *cluster.Cluster, restarted *cluster.Server) {
	t.Helper()
	awaitMembers(t, c, c.Servers)
	self := restarted.Current().Member()
	for _, s := range c.Servers {
		c.Await(s.Name+" has heard of "+restarted.Name, func() bool {
			return slices.ContainsFunc(s.Current().Members(), func(m *rows.AgentMember) bool {
				return m.Name == self.Name && m.Tags["build"] == self.Tags["build"]
			})
		})
	}
}

// awaitGossip waits until each of some servers knows all, and until all have answered a question of each one.
// They verify the encryption, or none of them has a key.
func awaitGossip(t *testing.T, c *cluster.Cluster, servers []*cluster.Server) {
	t.Helper()
	awaitMembers(t, c, servers)
	for _, s := range servers {
		c.Await("all servers answer "+s.Name, func() bool {
			_, err := s.Current().GossipKeys.Do(rows.GossipKeyList, "")
			return err == nil || !strings.Contains(err.Error(), "servers have answered")
		})
	}
}

// restart restarts a server with another configuration.
func restart(t *testing.T, c *cluster.Cluster, s *cluster.Server, change func(*server.Config)) {
	t.Helper()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	s.Change(change)
	c.Restart(s)
}

// TestGossip_IsEncryptedInSteps restarts one server after the other with the settings of the next step. No
// test runs beside it: a server that gets no processor for seconds has failed for the others.
func TestGossip_IsEncryptedInSteps(t *testing.T) {
	log := &serverLog{}
	c := cluster.NewLogged(t, log.logger(), 3, rareElections)
	key := rows.NewGossipKey()
	log.take()

	for i, step := range []struct{ incoming, outgoing bool }{{false, false}, {false, true}, {true, true}} {
		for _, s := range c.Servers {
			restart(t, c, s, func(cfg *server.Config) {
				cfg.Encrypt = structs.Secret(key)
				cfg.VerifyIncoming = step.incoming
				cfg.VerifyOutgoing = step.outgoing
				cfg.Version = fmt.Sprintf("with step %d", i+1)
			})
			awaitNews(t, c, s)
			if !step.incoming {
				_, err := s.Current().GossipKeys.Do(rows.GossipKeyInstall, rows.NewGossipKey())
				checkError(t, err, structs.KindPrecondition, "server.encrypt_verify_incoming = false")
			}
			for line := range strings.Lines(log.take()) {
				_, of, failed := strings.Cut(line, "EventMemberFailed: ")
				if failed && !strings.HasPrefix(of, s.Name+".") { // or it was away for long, on a slow machine
					t.Errorf("incoming %t, outgoing %t: after the restart of %s: %s", step.incoming, step.outgoing,
						s.Name, line)
				}
			}
		}
	}

	awaitGossip(t, c, c.Servers)
	for _, s := range c.Servers {
		rings, err := s.Current().GossipKeys.Do(rows.GossipKeyList, "")
		if err != nil || len(rings.Keys) != 1 || rings.PrimaryKeys[key] != 3 || rings.NumNodes != 3 {
			t.Errorf("%s: got %+v, error %v", s.Name, rings, err)
		}
	}
	wantStranger(t, c, c.Servers, "without a key", func(*server.Config) {})
}

// change does an operation, again if an answer got lost.
func change(t *testing.T, c *cluster.Cluster, s *cluster.Server, op rows.GossipKeyOperation, key string) {
	t.Helper()
	c.Await(string(op)+" at all servers", func() bool {
		rings, err := s.Current().GossipKeys.Do(op, key)
		if err != nil && !structs.IsKind(err, structs.KindInternal) {
			t.Fatalf("%s: %v", op, err)
		}
		return err == nil && rings.NumNodes == 3 && rings.NumErr == 0
	})
}

// wantKeys waits until all three servers have keys, of which the first is the primary one.
func wantKeys(t *testing.T, c *cluster.Cluster, s *cluster.Server, keys ...string) {
	t.Helper()
	var rings *rows.GossipKeyrings
	c.Await("the keys of all servers", func() (ok bool) {
		var err error
		rings, err = s.Current().GossipKeys.Do(rows.GossipKeyList, "")
		return err == nil
	})
	want := map[string]int{}
	for _, key := range keys {
		want[key] = 3
	}
	got, _ := json.Marshal([]any{rings.Keys, rings.PrimaryKeys})
	wanted, _ := json.Marshal([]any{want, map[string]int{keys[0]: 3}})
	if !bytes.Equal(got, wanted) {
		t.Errorf("the servers have %s, want %s", got, wanted)
	}
}

// stranger starts a server that knows no other one, and has it join the servers.
func stranger(t *testing.T, c *cluster.Cluster, servers []*cluster.Server, configure func(*server.Config)) (
	s *cluster.Server, err error,
) {
	t.Helper()
	c.Configure = func(cfg *server.Config) {
		cfg.RetryJoin = []string{"127.0.0.1:1"}
		cfg.Encrypt = ""
		configure(cfg)
	}
	s = c.Add(0)
	var addrs []string
	for _, known := range servers {
		m := known.Current().Member()
		addrs = append(addrs, net.JoinHostPort(m.Addr, strconv.Itoa(int(m.Port))))
	}
	_, err = s.Current().Join(t.Context(), addrs)
	return s, err
}

// wantStranger fails the test unless a server cannot join.
func wantStranger(t *testing.T, c *cluster.Cluster, servers []*cluster.Server, what string,
	configure func(*server.Config),
) {
	t.Helper()
	servers = slices.Clone(servers)
	s, err := stranger(t, c, servers, configure)
	if !structs.IsKind(err, structs.KindUnavailable) || !knowsAlive(s, 1) {
		t.Errorf("a server %s joins: error %v", what, err)
	}
	for _, known := range servers {
		if !knowsAlive(known, len(servers)) {
			t.Errorf("%s knows a server %s", known.Name, what)
		}
	}
}

// TestGossip_RotatesItsKey replaces a key. One server is restarted after each step.
func TestGossip_RotatesItsKey(t *testing.T) {
	t.Parallel()
	former := rows.NewGossipKey()
	next := rows.NewGossipKey()
	log := &serverLog{}
	c := cluster.NewLogged(t, log.logger(), 3, rareElections, func(cfg *server.Config) {
		cfg.Encrypt = structs.Secret(former)
	})
	servers := slices.Clone(c.Servers)
	first := servers[0]
	second := servers[1]
	third := servers[2]
	same := func(*server.Config) {}
	wantKeys(t, c, first, former)
	wantStranger(t, c, servers, "without a key", same)

	_, err := first.Current().GossipKeys.Do(rows.GossipKeyUse, next)
	checkError(t, err, structs.KindPrecondition, "0 of 3 servers have the key", "install")
	change(t, c, first, rows.GossipKeyInstall, next)
	restart(t, c, second, same)
	awaitGossip(t, c, servers)
	wantKeys(t, c, second, former, next)

	change(t, c, third, rows.GossipKeyUse, next)
	restart(t, c, first, same) // its setting is still the former key
	awaitGossip(t, c, servers)
	wantKeys(t, c, first, next, former)

	_, err = second.Current().GossipKeys.Do(rows.GossipKeyRemove, next)
	checkError(t, err, structs.KindPrecondition, "primary key of 3 of 3 servers")
	change(t, c, second, rows.GossipKeyRemove, former)
	wantKeys(t, c, third, next)
	wantStranger(t, c, servers, "with the former key", func(cfg *server.Config) {
		cfg.Encrypt = structs.Secret(former)
	})
	wantStranger(t, c, servers, "that encrypts with the former key", func(cfg *server.Config) {
		writeKeys(t, cfg, former, next)
	})

	joined, err := stranger(t, c, servers, func(cfg *server.Config) { cfg.Encrypt = structs.Secret(next) })
	if err != nil {
		t.Errorf("a server with the key does not join: %v", err)
	}
	awaitGossip(t, c, append(servers, joined))
	checkCanaries(t, c, log.take(), former, next)
}

// writeKeys writes the keyring file of a server that has not started.
func writeKeys(t *testing.T, cfg *server.Config, keys ...string) {
	t.Helper()
	content, err := json.Marshal(keys)
	if err == nil {
		err = os.MkdirAll(cfg.DataDir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(cfg.DataDir, gossip.KeyringFile), content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// checkCanaries stops the servers, and fails the test if keys are in the log, or in a file of a server
// besides its keyring file.
func checkCanaries(t *testing.T, c *cluster.Cluster, log string, keys ...string) {
	t.Helper()
	var hidden []string
	for _, key := range keys {
		raw, err := base64.StdEncoding.DecodeString(key)
		if err != nil {
			t.Fatal(err)
		}
		hidden = append(hidden, key, string(raw))
	}
	shows := func(content string) bool {
		return slices.ContainsFunc(hidden, func(key string) bool { return strings.Contains(content, key) })
	}
	if shows(log) {
		t.Error("the log shows a key")
	}
	found := 0
	for _, s := range c.Servers {
		if err := s.Kill(); err != nil { // its files stay as they are
			t.Error(err)
		}
		err := filepath.WalkDir(s.DataDir(), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(path)
			if !shows(string(content)) {
				return err
			}
			found++
			info, err := d.Info()
			if filepath.Base(path) != gossip.KeyringFile || err == nil && info.Mode() != 0o600 {
				t.Errorf("%s has a key, with the mode %s", path, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if found < 3 {
		t.Errorf("%d files have a key: the search is broken", found)
	}
}

// TestGossip_NamesTheServersThatDoNotFollow has a server that cannot write its file, then one that takes no
// requests about keys, and then one that has failed.
func TestGossip_NamesTheServersThatDoNotFollow(t *testing.T) {
	t.Parallel()
	key := structs.Secret(rows.NewGossipKey())
	c := cluster.New(t, 3, rareElections, func(cfg *server.Config) { cfg.Encrypt = key })
	first := c.Servers[0]
	second := c.Servers[1]
	third := c.Servers[2]
	awaitGossip(t, c, c.Servers)

	path := filepath.Join(second.DataDir(), gossip.KeyringFile)
	if err := errors.Join(os.Rename(path, path+".away"), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	wantUnfollowed(t, c, first, rows.GossipKeyInstall, structs.KindInternal, second.Name+".global: ",
		"is a directory")
	if err := errors.Join(os.Remove(path), os.Rename(path+".away", path)); err != nil {
		t.Fatal(err)
	}

	restart(t, c, third, func(cfg *server.Config) { cfg.VerifyIncoming = false })
	awaitMembers(t, c, c.Servers)
	var err error
	c.Await("the gossip takes the third server for alive", func() bool {
		_, err = first.Current().GossipKeys.Do(rows.GossipKeyInstall, rows.NewGossipKey())
		return !structs.IsKind(err, structs.KindPrecondition)
	})
	checkError(t, err, structs.KindInternal, "of 3 servers have answered", "encrypt_verify_incoming",
		"has not been made")

	killAndAwaitFailed(c, t, third, first)
	wantUnfollowed(t, c, first, rows.GossipKeyInstall, structs.KindPrecondition, third.Name+".global for failed",
		"force-leave")
	c.Await("the other servers answer without the failed one", func() bool {
		rings, err := second.Current().GossipKeys.Do(rows.GossipKeyList, "")
		return err == nil && rings.NumNodes == 2
	})
}

// wantUnfollowed waits until an operation fails in a way, and not because an answer got lost.
func wantUnfollowed(t *testing.T, c *cluster.Cluster, s *cluster.Server, op rows.GossipKeyOperation,
	kind structs.Kind, texts ...string,
) {
	t.Helper()
	var err error
	c.Await("the answers of all servers", func() bool {
		_, err = s.Current().GossipKeys.Do(op, rows.NewGossipKey())
		return err == nil || !strings.Contains(err.Error(), "servers have answered")
	})
	checkError(t, err, kind, texts...)
}
