package cluster_test

import (
	"fmt"
	"testing"

	"berth/server"
	"berth/structs"
	"berth/structs/access"
	"berth/test/cluster"
)

// withACL turns access control on in the configuration of a server.
func withACL(mode string) func(*server.Config) {
	return func(cfg *server.Config) {
		cfg.ACL.Enabled = mode != access.ModeOff
		cfg.ACL.Mode = mode
	}
}

// asStranger sends requests without a token to a server: a read that it answers by itself, and a write. It
// returns nil if both are denied.
func asStranger(c *cluster.Cluster, s *cluster.Server) error {
	var list access.TokenListResponse
	read := s.Call(c.T.Context(), access.TokenList.Name, &access.TokenListRequest{
		QueryOptions: structs.QueryOptions{AuthToken: access.Anonymous, AllowStale: true},
	}, &list)
	var made access.TokenPutResponse
	write := s.Call(c.T.Context(), access.TokenPut.Name, &access.TokenPutRequest{
		Token:        &access.Token{Type: access.TypeManagement},
		WriteOptions: structs.WriteOptions{AuthToken: access.Anonymous},
	}, &made)
	for _, err := range []error{read, write} {
		if !structs.IsKind(err, structs.KindDenied) {
			return fmt.Errorf("%s: a request without a token: read %v, write %v", s.Name, read, write)
		}
	}
	return nil
}

// TestACLMode_OneServerLacksTheBlock: two servers enforce, and one has no acl block. As a follower and as the
// leader, it denies what they deny. It does so after a restart, too.
func TestACLMode_OneServerLacksTheBlock(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, withACL(access.ModeEnforce))
	c.Leader()
	bare := c.Others(c.Leader())[0]
	restart := func(change func(*server.Config)) {
		t.Helper()
		kill(t, bare)
		bare.Change(change)
		c.Restart(bare)
		c.Leader()
	}
	restart(withACL(access.ModeOff))
	c.AtLeader("the first token is made", func(s *cluster.Server) error {
		var made access.TokenPutResponse
		return s.Call(t.Context(), access.Bootstrap.Name, &access.BootstrapRequest{}, &made)
	})

	denies := func() bool { return asStranger(c, bare) == nil }
	c.Await("the server without the block denies as a follower", denies)
	c.Elect(bare)
	c.Await("the server without the block denies as the leader", denies)
	restart(func(*server.Config) {})
	c.Await("the server without the block denies after a restart", denies)
}

// Access control is turned on server by server: first it is logged, then enforced. The holder of a token
// works at each server after each step, and at the end nobody else does.
func TestACLMode_IsRolledOutServerByServer(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3)
	var made access.TokenPutResponse
	c.AtLeader("the first token is made", func(s *cluster.Server) error {
		return s.Call(t.Context(), access.Bootstrap.Name, &access.BootstrapRequest{}, &made)
	})
	works := func() bool {
		for _, s := range c.Servers {
			var list access.TokenListResponse
			err := s.Call(t.Context(), access.TokenList.Name, &access.TokenListRequest{
				QueryOptions: structs.QueryOptions{AuthToken: made.SecretID},
			}, &list)
			if err != nil || len(list.Tokens) == 0 {
				return false
			}
		}
		return true
	}
	for _, mode := range []string{access.ModeLog, access.ModeEnforce} {
		for _, s := range c.Servers {
			kill(t, s)
			s.Change(withACL(mode))
			c.Restart(s)
			c.Leader()
			c.Await("the token works at each server", works)
		}
	}
	for _, s := range c.Servers {
		c.Await("it denies a stranger", func() bool { return asStranger(c, s) == nil })
	}
}
