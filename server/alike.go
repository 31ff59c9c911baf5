package server

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"berth/server/fencing"
	"berth/structs/access"
)

// alike returns the settings of this server that all servers should have alike, by their names, and the
// digests of its state. The mode of access control is the one that counts here: a server without the block
// keeps to the cluster's.
func (s *Server) alike() map[string]string {
	all := s.cfg.alike()
	all["acl.keep_deleted"] = s.cfg.ACL.KeepDeleted.String()
	all["acl.mode"] = access.StricterMode(s.cfg.ACL.OwnMode(), s.accessMode.mode())
	s.digests.addTo(all)
	return all
}

// alike returns the settings that protect the cluster, and those by which the leader decides: another server
// may lead at any time. No value is a secret.
func (c *Config) alike() map[string]string {
	all := map[string]string{
		"server.encrypt_verify_incoming":  strconv.FormatBool(c.VerifyIncoming),
		"server.encrypt_verify_outgoing":  strconv.FormatBool(c.VerifyOutgoing),
		"server.heartbeat_ttl":            c.HeartbeatTTL.String(),
		"server.heartbeat_grace":          c.HeartbeatGrace.String(),
		"server.max_node_lease":           c.MaxNodeLease.String(),
		"server.eval_gc_threshold":        c.EvalGC.String(),
		"server.job_gc_threshold":         c.JobGC.String(),
		"server.node_gc_threshold":        c.NodeGC.String(),
		"server.gc_interval":              c.GCInterval.String(),
		"server.gc_max_rows":              strconv.Itoa(c.GCRows),
		"server.clock_quarantine":         c.ClockQuarantine.String(),
		"server.raft_multiplier":          strconv.Itoa(c.RaftMultiplier),
		"server.rpc_max_conns_per_client": strconv.Itoa(c.MaxConnsPerAddr),
		"server.job_max_source_size":      fmt.Sprint(c.JobSource),
		"server.oidc_issuer":              c.OIDCIssuer,
		"server.workload_identity":        fmt.Sprintf("%s, %s", c.Identities.Algorithm, c.Identities.RotateAfter),
		"server.fence_max_parallel":       strconv.Itoa(c.FenceParallel),
		"server.fencing":                  describeDevices(c.Fencing),
	}
	maps.Copy(all, c.AgentSettings)
	return all
}

// describeDevices names the devices in their order, each with its agent and a digest of its settings. The
// values of options stay out of the digest: they may be secrets.
func describeDevices(all []*fencing.Device) string {
	var texts []string
	for _, d := range all {
		plain := *d
		plain.Options = maps.Clone(d.Options)
		for name := range plain.Options {
			plain.Options[name] = ""
		}
		texts = append(texts, fmt.Sprintf("%s (%s, %s)", d.Name, d.Agent, DigestOf(plain)))
	}
	return strings.Join(texts, ", ")
}

// DigestOf returns a short text that differs for different settings.
func DigestOf(settings any) string {
	text, err := json.Marshal(settings)
	if err != nil {
		text = fmt.Append(nil, settings)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}
