package client

import (
	"context"
	"slices"

	"berth/client/membership"
)

// A list from a misconfigured discovery could have any number.
const maxServers = 64

// origin returns where this node has its servers from.
func (n *node) origin() (membership.ServerOrigin, error) {
	cfg := n.config()
	belongs, err := membership.ReadCluster(cfg.StateDir())
	return membership.ServerOrigin{Configured: cfg.Servers, Cluster: belongs}, err
}

// firstServers returns the servers that a new agent calls: the servers of its configuration, and then the
// ones that an earlier agent has learned with it. All of the former may have other addresses by now.
func (n *node) firstServers() []string {
	all := withServers(n.config().Servers, n.memory.Recall())
	if more := all[len(n.config().Servers):]; len(more) > 0 {
		n.logger.Info("an earlier agent has learned more servers than the configuration has", "servers", more)
	}
	return all
}

// learnServers takes over the servers of an answer, unless an operator has configured others since the node
// asked with asked.
func (n *node) learnServers(asked *Config, addrs []string) {
	if !slices.Equal(asked.Servers, n.config().Servers) {
		return
	}
	n.servers.Set(addrs)
	n.memory.Note(addrs)
}

// findServers adds servers that are not known yet to the list: servers of the configuration, whose names may
// have other addresses by now, and of discovery. The next answer of a server replaces the list by the
// servers' own one.
func (n *node) findServers(ctx context.Context) {
	found := n.config().Servers
	if n.find != nil {
		discovered, err := n.find(ctx)
		if err != nil {
			n.logger.Warn("failed to look for servers", "error", err)
		}
		found = slices.Concat(found, discovered)
	}

	known := n.servers.All()
	all := withServers(known, found)
	if len(all) > len(known) {
		n.logger.Info("found servers", "servers", all)
		n.servers.Set(all)
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
