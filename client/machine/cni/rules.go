package cni

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"

	"berth/structs"
)

// rule is a rule of the packet filter.
type rule struct {
	table, chain string
	insert       bool // before all others
	match        []string
}

// rules returns the rules of the bridge. They name the bridge and its subnet, not an allocation, so no crash
// leaves one too many. Packets to and from allocations are forwarded also where the policy is to drop them,
// and packets that leave the bridge have the address of the node.
func (c Settings) rules() []rule {
	comment := []string{"-m", "comment", "--comment", "berth bridge"}
	return []rule{
		{"filter", "FORWARD", true, append([]string{
			"-i", c.BridgeName, "-s", c.BridgeSubnet, "-j", "ACCEPT",
		}, comment...)},
		{"filter", "FORWARD", true, append([]string{
			"-o", c.BridgeName, "-d", c.BridgeSubnet, "-j", "ACCEPT",
		}, comment...)},
		{"nat", "POSTROUTING", false, append([]string{
			"-s", c.BridgeSubnet, "!", "-o", c.BridgeName, "!", "-d", "224.0.0.0/4", "-j", "MASQUERADE",
		}, comment...)},
	}
}

// ensureRules adds the missing rules of the bridge. A program that has flushed the rules takes them away, and
// the next allocation adds them again.
func (c Settings) ensureRules(ctx context.Context) error {
	for _, r := range c.rules() {
		err := r.iptables(ctx, "-C")
		// The program has run, and there is no such rule.
		if _, absent := errors.AsType[*exec.ExitError](err); !absent {
			if err != nil {
				return err
			}

			continue
		}

		how := "-A"
		if r.insert {
			how = "-I"
		}

		err = r.iptables(ctx, how)
		if err != nil {
			return err
		}
	}
	return nil
}

// lockWait is the time in seconds that iptables waits for its own lock.
const lockWait = "30"

// iptables looks for the rule (-C), adds it at the end (-A) or before all others (-I).
func (r rule) iptables(ctx context.Context, how string) error {
	args := slices.Concat([]string{"-w", lockWait, "-t", r.table, how, r.chain}, r.match)
	out, err := exec.CommandContext(ctx, "iptables", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("iptables %q: %w: %s", args, err, structs.Cut(string(out), structs.MaxText))
	}
	return nil
}
