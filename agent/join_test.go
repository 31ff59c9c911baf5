package agent

import (
	"slices"
	"strings"
	"testing"

	"berth/structs"
)

// TestAgent_JoinsServersOnARequest starts a server whose retry_join has no server.
func TestAgent_JoinsServersOnARequest(t *testing.T) {
	const nowhere = "127.0.0.1:1"
	first, _, _ := runServer(t, "s1", func(*Config) {})
	second, _, _ := runServer(t, "s2", func(c *Config) {
		c.Server.BootstrapExpect = 0
		c.Server.RetryJoin = []string{nowhere}
	})
	itself := serfAddr(second.server)
	for _, addrs := range [][]string{{nowhere}, {itself}, {nowhere, itself}} {
		joined, err := (local{second}).Join(t.Context(), addrs)
		if !structs.IsKind(err, structs.KindUnavailable) || joined != 0 {
			t.Errorf("joining %v: joined %d, error %v, want unavailable", addrs, joined, err)
		}
	}
	joined, err := (local{second}).Join(t.Context(), []string{nowhere, serfAddr(first.server)})
	if err != nil || joined != 1 {
		t.Fatalf("joined %d, error %v, want 1", joined, err)
	}
	awaitCondition(t, "both servers have a vote", func() bool { return voters(first) == 2 })
}

func TestAgent_BoundsTheServersToJoin(t *testing.T) {
	a, _, _ := runServer(t, "s1", func(*Config) {})
	for what, addrs := range map[string][]string{
		"none":     nil,
		"empty":    {""},
		"too long": {strings.Repeat("a", structs.MaxJoinAddress+1)},
		"too many": slices.Repeat([]string{"127.0.0.1:1"}, structs.MaxJoinAddresses+1),
	} {
		joined, err := (local{a}).Join(t.Context(), addrs)
		if !structs.IsKind(err, structs.KindInvalid) || joined != 0 {
			t.Errorf("%s: joined %d, error %v, want invalid", what, joined, err)
		}
	}
	_, err := (local{&Agent{}}).Join(t.Context(), []string{"127.0.0.1:1"})
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("an agent without a server: got %v, want precondition", err)
	}
}
