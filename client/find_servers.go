package client

import (
	"context"
	"slices"

	"berth/client/membership/cluster"
	"berth/client/servers"
)

// A list from a misconfigured discovery could have any number.
const maxServers = 64

// origin returns where this node has its servers from.
func (c *Client) origin() (servers.Origin, error) {
	cfg := c.config()
	belongs, err := cluster.Read(cfg.StateDir())
	return servers.Origin{Configured: cfg.Servers, Cluster: belongs}, err
}

// firstServers returns the servers that a new agent calls: those of its configuration, and then those that an
// earlier agent has learned with it. All of the former may have other addresses by now.
func (c *Client) firstServers() []string {
	all := withServers(c.config().Servers, c.memory.Recall())
	if more := all[len(c.config().Servers):]; len(more) > 0 {
		c.logger.Info("an earlier agent has learned more servers than the configuration has", "servers", more)
	}
	return all
}

// learnServers takes over the servers of an answer, unless an operator has configured others since the node
// asked with asked.
func (c *Client) learnServers(asked *Config, addrs []string) {
	if !slices.Equal(asked.Servers, c.config().Servers) {
		return
	}
	c.servers.Set(addrs)
	c.memory.Note(addrs)
}

// findServers adds servers that are not known yet to the list: those of the configuration, whose names may
// have other addresses by now, and those of discovery. The next answer of a server replaces the list by the
// servers' own one.
func (c *Client) findServers(ctx context.Context) {
	found := c.config().Servers
	if c.find != nil {
		discovered, err := c.find(ctx)
		if err != nil {
			c.logger.Warn("failed to look for servers", "error", err)
		}
		found = slices.Concat(found, discovered)
	}

	known := c.servers.All()
	all := withServers(known, found)
	if len(all) > len(known) {
		c.logger.Info("found servers", "servers", all)
		c.servers.Set(all)
	}
}

// withServers returns a list with more servers behind it. The known ones stay in front, since one of them may
// be the leader.
func withServers(known, more []string) []string {
	all := slices.Clone(known)
	for _, addr := range more {
		if len(all) < maxServers && !slices.Contains(all, addr) {
			all = append(all, addr)
		}
	}
	return all
}
