package agent

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"berth/internal/auditlog"
	"berth/internal/peertls"
	"berth/server"
)

// alike returns the settings outside of the block server that all servers should have alike, by their names.
func (c *Config) alike() map[string]string {
	return map[string]string{
		"audit":                            describeAudit(&c.Audit),
		"limits.http_max_conns":            strconv.Itoa(c.Limits.HTTPMaxConns),
		"limits.http_max_conns_per_client": strconv.Itoa(c.Limits.HTTPMaxConnsPerClient),
		"tls.mode":                         string(cmp.Or(c.TLS.Mode, peertls.ModeOff)),
		"tls.plain_loopback":               strconv.FormatBool(c.TLS.PlainLoopback),
	}
}

// describeAudit names the sinks with what they guarantee, and the filters with a digest. The path of a file
// differs between machines.
func describeAudit(c *auditlog.Config) string {
	if !c.Enabled {
		return "off"
	}
	parts := []string{"on"}
	for _, s := range c.Sinks {
		parts = append(parts, fmt.Sprintf("sink %s (%s, %s)", s.Name, s.Type, s.DeliveryGuarantee))
	}
	for _, f := range c.Filters {
		parts = append(parts, fmt.Sprintf("filter %s (%s)", f.Name, server.DigestOf(f)))
	}
	return strings.Join(parts, ", ")
}
