package cni

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"berth/structs"
)

// Found is what a node has for networks of allocations.
type Found struct {
	// Modes are the networks of the node, for its row.
	Modes []*structs.NodeNetworkResource
	// Attributes are the versions of the plugins.
	Attributes map[string]string
	// NoBridge is the reason for which the node has no network with mode bridge, nil if it has.
	NoBridge error
	// Faults tell why the node does not use a configuration.
	Faults []error
}

// Find finds the plugins and the networks.
func (n *Networks) Find(ctx context.Context) Found {
	found := Found{Attributes: n.versions(ctx)}
	found.NoBridge = n.bridgeLacks()
	if found.NoBridge == nil {
		found.Modes = append(found.Modes, &structs.NodeNetworkResource{
			Mode:   structs.NetworkModeBridge,
			Device: n.cfg.BridgeName,
		})
	}
	lists, faults := n.configured()
	found.Faults = faults
	for _, list := range lists {
		found.Modes = append(found.Modes, &structs.NodeNetworkResource{
			Mode: structs.NetworkModeCNI + list.Name,
		})
	}
	return found
}

// bridgeLacks returns what the bridge needs and the node does not have.
func (n *Networks) bridgeLacks() error {
	var lacks []string
	for _, name := range bridgePlugins {
		if _, err := new(plugins).FindInPath(name, n.cfg.paths()); err != nil {
			lacks = append(lacks, "the CNI plugin "+name)
		}
	}
	// ensureRules calls it.
	if _, err := exec.LookPath("iptables"); err != nil {
		lacks = append(lacks, "the program iptables")
	}
	if os.Geteuid() != 0 {
		lacks = append(lacks, "an agent that runs as root")
	}
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("it needs %s (client.cni_path is %s)", strings.Join(lacks, ", "), n.cfg.Path)
}

// The bounds of the look for versions.
const (
	maxPlugins     = 100
	versionTimeout = 2 * time.Second
)

// versionLine is the text that plugins write about themselves.
var versionLine = regexp.MustCompile(`^CNI \S+ plugin v?(\d[0-9A-Za-z.+~-]*)\s`)

// versions returns the version of each plugin that tells it, as an attribute of the node.
func (n *Networks) versions(ctx context.Context) map[string]string {
	found := map[string]string{}
	tried := 0
	for _, dir := range n.cfg.paths() {
		entries, _ := os.ReadDir(dir) // most nodes lack some of the directories
		for _, e := range entries {
			name := "plugins.cni.version." + e.Name()
			info, err := os.Stat(filepath.Join(dir, e.Name()))
			// A plugin in an earlier directory hides one of the same name, as it does for libcni.
			if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 ||
				found[name] != "" || tried == maxPlugins {
				continue
			}

			// Each try may take versionTimeout.
			tried++
			if text := versionOf(ctx, filepath.Join(dir, e.Name())); text != "" {
				found[name] = text
			}
		}
	}

	return found
}

// versionOf returns the version that a program tells, "" for none.
func versionOf(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	var out bounded
	cmd := exec.CommandContext(ctx, path, "--version")
	// An empty environment has none of the agent's variables.
	cmd.Env = []string{}
	cmd.Stdout = &out
	cmd.Stderr = &out
	cmd.WaitDelay = versionTimeout
	_ = cmd.Run() // a program that is no plugin may fail
	m := versionLine.FindSubmatch(out.kept)
	if m == nil {
		return ""
	}
	return structs.Cut(string(m[1]), structs.MaxName)
}
